"""The lint: every rule finds what is marked, and nothing else; runs under the switch refuse it."""

from __future__ import annotations

import importlib
import pickle
import re
import types
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.cli import kernel_file
from trn3.machine import NkiValidationError
from trn3.nki.lint import RULES, PortabilityError, lint
from trn3.nki.lint.rules import markdown
from trn3.nki.lint.walker import Walk
from trn3.nki.values.kernel_function import as_kernel_function

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "tests" / "corpora" / "portability"
EXAMPLES = sorted((ROOT / "examples" / "kernels").glob("*.py"))
#: Examples that are no portable kernels, with the rules that say why.
NOT_PORTABLE = {
    "sparse_mlp": {"TRN3-P025"},
}
X = np.ones((128, 4), np.float32)


def kernels_of(module: ModuleType) -> dict[str, nki.Kernel]:
    return {name: each for name, each in vars(module).items() if isinstance(each, nki.Kernel)}


def marked(path: Path) -> set[tuple[int, str]]:
    """Return the lines of a file that are marked, with their rules."""
    lines = path.read_text().splitlines()
    return {
        (number, f"TRN3-{rule}")
        for number, line in enumerate(lines, 1)
        for rule in re.findall(r"# (P\d{3})", line)
        if not line.startswith('"""')
    }


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRN3_NKI_STRICT", "1")


#: Files of kernels that are refused, and the release that does.
REFUSED = {"refused.py": "0.6", "legacy_refused.py": "0.6", "loops_refused.py": "0.7"}


@pytest.mark.parametrize("name", REFUSED)
def test_lint_finds_marked_lines_and_no_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRN3_NKI_VERSION", REFUSED[name])
    path = CORPUS / name
    module = kernel_file.import_file(path)
    findings = {each for kernel in kernels_of(module).values() for each in lint(kernel)}
    assert {(each.line, each.rule) for each in findings} == marked(path)
    assert {each.file for each in findings} == {str(path)}
    assert all(each.column >= 1 and each.message and each.instead for each in findings)


def test_lint_has_a_marked_line_for_every_rule() -> None:
    tried = {rule for name in REFUSED for _, rule in marked(CORPUS / name)}
    assert tried == {rule.id for rule in RULES}


def test_lint_severity_of_what_is_undocumented_is_a_warning() -> None:
    module = kernel_file.import_file(CORPUS / "refused.py")
    assert {each.severity for each in lint(module.functions)} == {"warning"}
    assert {each.severity for each in lint(module.identities)} == {"error"}


def test_lint_of_what_published_kernels_use_is_clean() -> None:
    kernels = kernels_of(kernel_file.import_file(CORPUS / "portable.py"))
    assert len(kernels) == 3
    assert {name: lint(kernel) for name, kernel in kernels.items()} == dict.fromkeys(kernels, ())


def test_strict_runs_what_published_kernels_use(strict: None) -> None:
    module = kernel_file.import_file(CORPUS / "portable.py")
    x = np.random.default_rng(0).standard_normal((256, 64), dtype=np.float32)
    config = module.Config(tile=64, mode=module.Mode.DOUBLE)
    for cores in (1, 2):
        assert np.array_equal(module.scaled[cores](x, config=config), 2 * x)
    assert np.array_equal(module.scaled(x, config=module.Config(64)), x)
    assert np.array_equal(module.looped(x[:128], 3), x[:128])
    gathered = module.gathered(x, np.array([[5], [3]], np.int32))
    assert np.array_equal(gathered, x[[5, 3]])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_lint_of_examples_is_clean_where_they_are_portable(path: Path) -> None:
    kernels = kernels_of(kernel_file.import_file(path))
    rules = {each.rule for kernel in kernels.values() for each in lint(kernel)}
    assert rules == NOT_PORTABLE.get(path.stem, set())


def test_lint_follows_brackets_and_plain_functions() -> None:
    def plain(x: Any) -> Any:
        return x if x is None else 2

    assert [each.rule for each in lint(plain)] == ["TRN3-P001"]
    assert lint(nki.jit(plain)[2]) == lint(plain)


def test_lint_column_points_at_the_expression() -> None:
    def plain(x: Any) -> Any:
        return nl.divide(x, x)

    (finding,) = lint(plain)
    line = Path(__file__).read_text().splitlines()[finding.line - 1]
    assert line[finding.column - 1 :].startswith("nl.divide")


@pytest.mark.parametrize(
    "name",
    ["argparse", "asyncio.base_events", "contextlib", "dataclasses", "enum", "inspect", "typing"],
)
def test_lint_reads_any_python(name: str) -> None:
    module = importlib.import_module(name)
    things = [*vars(module).values()]
    things += [each for kind in things if isinstance(kind, type) for each in vars(kind).values()]
    functions = [each for each in things if isinstance(each, types.FunctionType)]
    read = [Walk(as_kernel_function(each)) for each in functions]
    assert sum(walk.complete for walk in read) > 5
    assert all(finding.line >= 1 for walk in read for finding in walk.findings)


def test_lint_reads_long_sums(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    terms = " + ".join(["x"] * 900)
    path.write_text(f"def long(x):\n    y = {terms}\n    return y is None\n")
    module = kernel_file.import_file(path)
    assert [(each.line, each.rule) for each in lint(module.long)] == [(3, "TRN3-P001")]


def test_lint_without_source_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("def made(x):\n    return x is None\n", names)
    with pytest.raises(ValueError, match="no source"):
        lint(names["made"])
    with pytest.raises(TypeError, match="allowed"):
        lint(3)  # type: ignore[arg-type]


def test_lint_of_an_older_version_has_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    legacy = kernel_file.import_file(CORPUS / "legacy_refused.py").legacy
    modern = kernel_file.import_file(CORPUS / "refused.py").calls
    monkeypatch.setenv("TRN3_NKI_VERSION", "0.2")
    assert lint(legacy) == ()
    assert lint(modern) == ()


def copied(dst_value: Any, buffer: Any = nl.shared_hbm) -> nki.Kernel:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray((128, 4), nl.int32, buffer=nl.sbuf)
        nisa.memset(tile, dst_value)
        out = nl.ndarray((128, 4), nl.int32, buffer=buffer)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


def test_strict_lists_every_finding_in_one_error(strict: None) -> None:
    module = kernel_file.import_file(CORPUS / "refused.py")
    with pytest.raises(PortabilityError) as caught:
        module.identities(X)
    assert isinstance(caught.value, NkiValidationError)
    lines = str(caught.value).splitlines()
    assert "compilers refuse 4 places" in lines[0]
    assert len(lines) == 5
    assert all(re.search(r"refused\.py:\d+:\d+: TRN3-P00[12] ", line) for line in lines[1:])
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.findings == caught.value.findings


def test_strict_runs_portable_kernels(strict: None) -> None:
    assert (copied(2)(X) == 2).all()


def test_strict_sees_the_value_of_memset(strict: None) -> None:
    with pytest.raises(
        PortabilityError, match=r"TRN3-P013 .*int32 with 2\.0.*write a whole"
    ) as got:
        copied(2.0)(X)
    (finding,) = got.value.findings
    assert "nisa.memset" in Path(__file__).read_text().splitlines()[finding.line - 1]


def test_strict_memset_by_the_language_itself_is_no_finding(strict: None) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 4), nl.int32, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros((128, 4), nl.int32))
        return out

    assert (kernel(X) == 0).all()


def test_strict_sees_private_results(strict: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(PortabilityError, match=r"TRN3-P015 .*private HBM"):
            copied(2, nl.private_hbm)(X)


def test_strict_sees_stores_from_psum(strict: None) -> None:
    def store(out: Any, tile: Any) -> None:
        nl.store(out, tile)

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray((128, 4), nl.float32, buffer=nl.psum)
        nisa.memset(tile, 1.0)
        out = nl.ndarray((128, 4), nl.float32, buffer=nl.shared_hbm)
        store(out, tile)
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(PortabilityError, match="TRN3-P020"):
            kernel(X)


def test_strict_sees_powers_of_numbers(strict: None) -> None:
    @nki.jit
    def kernel(x: Any, exponent: float) -> Any:
        out = nl.ndarray((128, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.power(nl.load(x), exponent))
        return out

    with pytest.raises(PortabilityError, match="TRN3-P019"):
        kernel(X, 2.0)


def test_strict_sees_list_arguments(strict: None) -> None:
    @nki.jit
    def kernel(x: Any, sizes: Any) -> Any:
        return x

    kernel(X, (1, 2))
    with pytest.raises(PortabilityError, match=r"TRN3-P003 argument `sizes` is a list"):
        kernel(X, [1, 2])
    with pytest.raises(PortabilityError, match=r"TRN3-P003 argument `sizes` is a list"):
        kernel(X, sizes=[1, 2])


def test_strict_warns_of_what_may_be_refused(strict: None) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        choose = [lambda y: y]
        return choose[0](x)

    with pytest.warns(UserWarning, match="TRN3-P007"):
        kernel(X)


def test_strict_says_what_it_cannot_read(strict: None) -> None:
    names: dict[str, Any] = {}
    exec("def made(x):\n    return x\n", names)
    with pytest.warns(UserWarning, match="no source to read"):
        nki.simulate(names["made"])(X)


def test_strict_setting_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRN3_NKI_STRICT", "yes")
    with pytest.raises(ValueError, match="TRN3_NKI_STRICT is 'yes'; allowed: 1"):
        copied(2)(X)


def test_without_the_switch_all_run() -> None:
    assert (copied(2.0)(X) == 2).all()


def test_portability_page_has_the_rules() -> None:
    page = (ROOT / "docs" / "reference" / "portability.md").read_text()
    table = re.search(r"<!-- rules -->\n(.*?)<!-- end of rules -->", page, re.DOTALL)
    assert table is not None
    assert table[1].strip() == markdown().strip(), "write trn3.nki.lint.rules.markdown()"

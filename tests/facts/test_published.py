"""Spec files: every system loads, every derived figure follows, wrong files are refused by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from trn3 import facts
from trn3.facts.expressions import ExpressionError, evaluate, names_in
from trn3.facts.spec import formulas, spec_of

SOURCE = 'sources = [{ value = 1, source = "mine" }]'


def quantity(name: str, key: str, value: object, unit: str) -> str:
    return f'[{name}.{key}]\ndefault = {value}\nunit = "{unit}"\n{SOURCE}\n'


def chip(name: str = "mine", **changes: str) -> str:
    """Return a whole chip; `changes` replace what stands in its tables."""
    text = f'[{name}]\n_kind = "chip"\n'
    text += quantity(name, "hbm_bandwidth", 2, "TB/s")
    text += quantity(name, "hbm_capacity", 64, "GiB")
    text += quantity(name, "tflops_bf16", 500, "TFLOPS")
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", facts.names())
def test_systems_load_with_title_kind_and_sources(name: str) -> None:
    system = facts.load(name)
    assert system.name == name
    assert system.title != name
    assert system.kind != "system"
    assert len(system) > 0
    for key, figure in system.items():
        assert figure.sources, key
        assert facts.factor(figure.unit) > 0


NAME = re.compile(r"(?<![\w.])[a-z_][a-z0-9_.]*")


def si_of(system: facts.Facts, name: str) -> float:
    """Return what a name in a derived source stands for: a figure as published, or a part's."""
    role, dot, key = name.partition(".")
    if not dot:
        return system[name].si
    part = system.part(role)
    assert part is not None
    return si_of(part, key)


@pytest.mark.parametrize("name", facts.names())
def test_derived_sources_evaluate_to_their_value(name: str) -> None:
    """Python's own parser and interpreter are the oracle; the texts are the project's."""
    system = facts.load(name)
    for key, source, value in facts.check_derived(system):
        assert source.expression is not None
        assert isinstance(source.value, (int, float))
        assert value == pytest.approx(source.value, rel=0.006), (key, source)
        text = NAME.sub(lambda name: repr(si_of(system, name[0])), source.expression)
        scale = 1 if text == source.expression else facts.factor(source.unit or system[key].unit)
        tree = compile(ast.parse(text, mode="eval"), key, "eval")
        assert value == pytest.approx(eval(tree, {"__builtins__": {}}) / scale, rel=1e-11)


def test_names_and_aliases_stand_for_one_system_each() -> None:
    assert len(facts.names()) == 25
    for alias, name in facts.aliases().items():
        assert name in facts.names()
        assert alias not in facts.names()
        assert facts.canonical(alias) == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("trn3", "trainium3"), ("Trainium3", "trainium3"), ("gen2", "trn3_gen2"),
        ("trn3-gen2", "trn3_gen2"), ("gen1", "trn3_gen1"), ("trn2", "trainium2"),
        ("trn2.48xlarge", "trn2_instance"), ("GB300 NVL72", "gb300_nvl72"), ("b300", "b300"),
    ],
)  # fmt: skip
def test_canonical_reads_what_users_type(typed: str, name: str) -> None:
    assert facts.canonical(typed) == name
    assert facts.load(typed).name == name


def test_unknown_names_say_the_nearest() -> None:
    with pytest.raises(ValueError, match="'trainum3' is unknown; the nearest is 'trainium3'"):
        facts.load("trainum3")
    with pytest.raises(KeyError, match="trainium3 has no hbm_bandwith; the nearest is 'hbm_bandw"):
        facts.load("trainium3")["hbm_bandwith"]


def test_quantities_have_base_units_and_ranges() -> None:
    trainium3 = facts.load("trainium3")
    assert trainium3["hbm_bandwidth"].si == 4.9e12
    assert trainium3["efa_per_chip"].si == 25e9
    assert trainium3["hbm_capacity"].si == 144 * 2**30
    assert trainium3["tdp"].range == pytest.approx((500, 1000))
    assert repr(trainium3["cores"].value) == "8"
    with pytest.raises(TypeError, match="'TSMC N3P' is no number"):
        _ = trainium3["process"].si


def test_sources_in_other_units_are_compared_in_the_figures_own() -> None:
    """20.7 TB is no rounding of 20,736 GiB, whatever the digits look like."""
    capacity = facts.load("gen2")["hbm_capacity"]
    assert capacity.range is not None
    assert capacity.range[0] == pytest.approx(20.7e12 / 2**30)
    assert capacity.status == "conflicting"


def test_user_files_may_name_parts_of_the_package(tmp_path: Path) -> None:
    file = tmp_path / "rack.toml"
    file.write_text(
        '[rack]\n_kind = "rack"\n_chip = "trainium3"\n' + quantity("rack", "chips", 3, "count"),
        encoding="utf-8",
    )
    spec = spec_of(file)
    assert spec["hbm_bandwidth"].value == pytest.approx(3 * 4.9)
    assert spec["pflops_mxfp8"].si == pytest.approx(3 * 8 * 128 * 128 * 4 * 2 * 2.4e9)


def test_user_files_with_several_systems_give_the_one_that_is_no_part(tmp_path: Path) -> None:
    file = tmp_path / "rack.toml"
    text = (
        chip() + '[rack]\n_kind = "rack"\n_chip = "mine"\n' + quantity("rack", "chips", 3, "count")
    )
    file.write_text(text, encoding="utf-8")
    assert facts.load(file).name == "rack"
    assert facts.load(str(file), "mine").kind == "chip"
    assert spec_of(file)["pflops_bf16"].value == 1.5
    with pytest.raises(ValueError, match="has no system 'mina'; the nearest is 'mine'"):
        facts.load(file, "mina")
    file.write_text(chip("one") + chip("two"), encoding="utf-8")
    with pytest.raises(ValueError, match="several systems: one, two; say which one"):
        facts.load(file)
    with pytest.raises(ValueError, match="trainium3 is one system of the package"):
        facts.load("trainium3", "mine")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (chip().replace("default = 2\n", "default = -2\n"), "mine.hbm_bandwidth: is -2 TB/s"),
        (chip().replace("default = 2\n", "default = 0\n"), "a rate must be positive"),
        (chip(hbm_bandwidth="hbm"), "mine lacks hbm_bandwidth, and every roofline reads it"),
        (chip(hbm_capacity="hbm"), "mine lacks hbm_capacity, and every memory table reads it"),
        (chip(tflops_bf16="bf16"), "mine lacks a peak rate"),
        (chip().replace("TB/s", "furlongs"), 'unit "furlongs" is unknown'),
        (chip().replace(SOURCE, "sources = []"), "has no source"),
        ("[a", "is not TOML"),
        ("", "describes no system"),
    ],
)
def test_wrong_files_are_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"mine\.toml") as error:
        facts.parse(text, "mine.toml")
    assert complaint in str(error.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        facts.load(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"bytes\.toml is not TOML"):
        facts.load(tmp_path / "bytes.toml")


def test_parts_that_do_not_exist_are_refused() -> None:
    text = '[rack]\n_kind = "rack"\n_chip = "trainium9"\n' + quantity("rack", "chips", 3, "count")
    with pytest.raises(ValueError, match=r"mine.toml: rack._chip: system 'trainium9' is unknown"):
        spec_of(facts.parse(text, "mine.toml")["rack"])
    with pytest.raises(ValueError, match=r"rack\._chip is 3; must be the name of a system"):
        spec_of(facts.parse(text.replace('"trainium9"', "3"), "mine.toml")["rack"])


def test_need_names_what_lacks_and_what_needs() -> None:
    bare = facts.parse("[link]\n" + quantity("link", "rate", 1, "GB/s"), "mine.toml")["link"]
    assert bare.need("rate", "a route").value == 1
    with pytest.raises(ValueError, match=r"mine\.toml: link lacks latency, which a route needs"):
        bare.need("latency", "a route")


@given(
    st.recursive(
        st.integers(1, 99).map(str),
        lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(
            lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"
        ),
        max_leaves=8,
    )
)
def test_evaluate_equals_python(text: str) -> None:
    try:
        wanted = float(eval(compile(text, "text", "eval"), {"__builtins__": {}}))
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="has no value"):
            evaluate(text)
        return
    assert evaluate(text) == pytest.approx(wanted, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "().__class__", "a[0]", "1 if 1 else 2", "2**65", "1/0", "x", "", "1;2",
        "lambda: 1", "max(1)", "max(*[1, 2])", "1 < 2", "'a'", "True", "9" * 500, "1e308*1e308",
        "(" * 300 + "1" + ")" * 300, "1//2", "a.b().c",
    ],
)  # fmt: skip
def test_evaluate_refuses_what_is_no_arithmetic(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text)


def test_formulas_read_names_that_exist() -> None:
    """A misspelled name would silently leave a formula out."""
    figures = {key for name in facts.names() for key in facts.load(name)}
    figures |= {rule for table in formulas().values() for rule in table}
    for table in formulas().values():
        for rule in table.values():
            for text in rule.formulas:
                for name in names_in(text):
                    assert name.rpartition(".")[2] in figures, (rule.key, name)


ROOT = Path(__file__).parents[2]
READS = re.compile(r'\b(?:si|quantity)\("(\w+)"\)')


def test_every_figure_that_code_reads_exists() -> None:
    """A figure that is renamed or dropped shows here, not in the first plan that needs it."""
    read = {
        key: file.relative_to(ROOT)
        for crate in ("facts", "system", "planner")
        for file in sorted((ROOT / "rust" / crate / "src").rglob("*.rs"))
        if "test" not in file.name
        for key in READS.findall(file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0])
    }
    assert "hbm_bandwidth" in read
    known = {key for name in facts.names() for key in facts.load(name)}
    for file in (ROOT / "rust" / "facts" / "specs" / "models").glob("*.toml"):
        if file.stem == "bands":  # Widths of errors by class: no figures that code reads by name.
            continue
        for system in facts.load_all(file).values():
            known |= set(system)
    known |= {key for name in facts.names() for key in spec_of(name)}
    assert not {key: str(file) for key, file in read.items() if key not in known}

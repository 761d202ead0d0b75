"""What `torch.compile(backend="trn3")` and `trn3.torch.compile` take, give and refuse."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch._dynamo.backends import registry

import trn3.torch
from support.torch_values import assert_close
from trn3.graph import GraphError

FILE = Path(__file__).name
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    """Forget what torch compiled: it counts per line of code."""
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def test_the_backend_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is declared; an installed trn3 has the same."""
    with (ROOT / "pyproject.toml").open("rb") as source:
        points = tomllib.load(source)["project"]["entry-points"]["torch_dynamo_backends"]
    folder = tmp_path / "declared-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[torch_dynamo_backends]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("_lazy_import", "_discover_entrypoint_backends"):
        getattr(registry, name).cache_clear()
    x, w = torch.randn(5, 8), torch.randn(8, 4)
    compiled = torch.compile(lambda x: torch.tanh(x @ w), backend="trn3")
    assert_close(compiled(x), torch.tanh(x.double() @ w.double()))
    options = {"matmul": "mxfp4"}
    rough = torch.compile(lambda x: torch.tanh(x @ w), backend="trn3", options=options)(x)
    assert 1e-3 < (rough - compiled(x)).abs().max() < 0.9


def test_products_are_cast_down_where_asked() -> None:
    x = torch.randn(32, 64)
    exact = x.double() @ x.double().T
    paths: list[Any] = [None, "bf16", "mxfp8", "mxfp4"]
    found = [trn3.torch.compile(lambda x: x @ x.T, matmul=path)(x) for path in paths]
    errors = [float((value - exact).abs().max() / exact.abs().max()) for value in found]
    assert errors == sorted(errors)
    assert errors[0] < 1e-6 < errors[1] < 1e-2 < errors[3] < 0.3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fast": True}, r"^an option is 'fast'; allowed: 'arch', 'cores', 'mode', 'matmul'"),
        ({"mode": "fast"}, r"^mode is 'fast'; allowed: 'auto', 'instructions', 'operations'"),
        ({"matmul": "fp4"}, r"^matmul is 'fp4'; allowed: None, 'as_typed', 'bf16', 'mxfp8'"),
        ({"cores": 3}, r"^cores is 3; allowed: 1, 2"),
        ({"compile": "O3"}, r"^compile is 'O3'; allowed: None, 'as-written'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    backend = trn3.torch.backend.trn3_backend
    with pytest.raises(ValueError, match=text) as caught:
        torch.compile(torch.sin, backend=backend, options=options)(torch.zeros(3))
    assert "\n" not in str(caught.value)
    if "fast" not in options:
        with pytest.raises(ValueError, match=text):
            trn3.torch.compile(torch.sin, **options)


def test_lengths_that_change_are_compiled_anew() -> None:
    compiled = trn3.torch.compile(lambda x: x.sum(0) * x.shape[0])
    plain = torch.compile(lambda x: x.sum(0) * x.shape[0], backend=trn3.torch.backend.trn3_backend)
    for length in (3, 4, 5, 6):
        x = torch.randn(length, 2)
        assert_close(compiled(x), x.double().sum(0) * length)
        assert_close(plain(x), x.double().sum(0) * length)


def test_what_is_compiled_counts_for_itself() -> None:
    """torch stops after a number of shapes; we say so, and count no other function's."""
    x = torch.ones(2, 2)
    for _ in range(20):
        assert float(trn3.torch.compile(torch.sum)(x)) == 4
        assert float(trn3.torch.compile(lambda x: x.sum())(x)) == 4
    compiled = trn3.torch.compile(lambda x: x.sum())
    with (
        torch._dynamo.config.patch(recompile_limit=2),
        pytest.raises(RuntimeError, match=r"^more shapes or types came .*, 2; torch\S+ says$"),
    ):
        [compiled(torch.ones(length)) for length in range(2, 6)]


def refused(function: Any, *args: Any) -> str:
    with pytest.raises(GraphError) as caught:
        trn3.torch.compile(function)(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def line_of(function: Any, offset: int) -> str:
    return re.escape(f"{FILE}:{function.__code__.co_firstlineno + offset}: ")


def deep(x: Any) -> Any:
    y = torch.sin(x)
    return torch.linalg.cholesky(y)


def widens(x: Any) -> Any:
    y = torch.sin(x)
    return y.double() + 1


class Layer(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return deep(x) + 1


def test_refusals_name_operator_and_line() -> None:
    x = torch.eye(3)
    expected = line_of(deep, 2) + r"aten\.linalg_cholesky_ex: is no operation of graphs"
    for function in (deep, lambda x: deep(x) + 1, Layer()):
        assert re.search(expected, refused(function, x))


def test_types_that_the_machine_does_not_have_are_refused() -> None:
    text = refused(lambda x: x + 1, torch.zeros(3, dtype=torch.float64))
    assert re.search(r"argument x is float64\[3\]; allowed: bfloat16, bool", text)
    text = refused(widens, torch.zeros(3))
    assert re.search(line_of(widens, 2) + r"aten\._to_copy: the result is float64\[3\]", text)
    text = refused(lambda x: torch.view_as_complex(x).abs(), torch.zeros(3, 2))
    assert re.search(r"aten\.view_as_complex: the result is complex64\[3\]; allowed", text)


def test_whole_numbers_of_64_bits_are_held_in_32() -> None:
    compiled = trn3.torch.compile(lambda i: (i * 3 + 1, i.sum(), i > 2))
    i = torch.tensor([-5, 2, 2**29])
    assert_close(compiled(i), (i * 3 + 1, i.sum(), i > 2))
    with pytest.raises(ValueError, match=r"argument i|i has the whole number 4294967296; allowed"):
        compiled(torch.tensor([2**32, 1, 2]))
    assert "has the whole number 4294967296" in refused(lambda i: i + 2**32, i)


def test_counts_are_made_when_the_graph_is() -> None:
    """Steps other than 1, and floats: as torch counts them, while its tensors are fakes."""

    def counted(x: Any) -> Any:
        return x + torch.arange(1, 12, 3), x * torch.arange(0, 1, 0.25), torch.linspace(0, 3, 4) - x

    x = torch.randn(4)
    assert_close(trn3.torch.compile(counted)(x), counted(x), 1e-6)


def test_random_numbers_are_those_of_torch() -> None:
    x = torch.randn(64, 8)
    model = torch.nn.Dropout(0.25)

    def noisy(x: Any) -> Any:
        return model(x) + torch.rand_like(x) * torch.randn(8)

    torch.manual_seed(3)
    expected = noisy(x)
    compiled = trn3.torch.compile(noisy)
    for _ in range(2):
        torch.manual_seed(3)
        assert_close(compiled(x), expected, 1e-6)


def test_a_dropout_goes_back_with_its_own_mask() -> None:
    x = torch.randn(64, 8, requires_grad=True)
    y = trn3.torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5, training=True))(x)
    y.sum().backward()
    assert torch.equal(x.grad, (y != 0) * 2.0)


@pytest.mark.parametrize(("kind", "approximate"), [("tanh", True), ("none", False)])
def test_both_front_ends_have_the_same_bits(kind: str, approximate: bool) -> None:
    jax = pytest.importorskip("jax")
    import trn3.jax

    draw = np.random.default_rng(0).standard_normal
    x, up, down = (draw(shape).astype(np.float32) for shape in ((9, 300), (300, 40), (40, 7)))
    ours = trn3.jax.compile(lambda x, up, down: jax.nn.gelu(x @ up, approximate) @ down)
    theirs = trn3.torch.compile(
        lambda x, up, down: torch.nn.functional.gelu(x @ up, approximate=kind) @ down
    )
    found = theirs(*map(torch.from_numpy, (x, up, down))).numpy()
    np.testing.assert_array_equal(found, np.asarray(ours(x, up, down)))


def test_by_instructions_has_the_bits_of_by_operation() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(24, 16), torch.nn.LayerNorm(16), torch.nn.SiLU(), torch.nn.Linear(16, 4)
    )
    x = torch.randn(8, 24)
    expected = trn3.torch.compile(model)(x)
    found, step = trn3.torch.profile(model, x)
    assert torch.equal(found, expected)
    assert step.latency_us == sum(part.latency_us for part in step.parts) > 0
    lines = {cost.line for cost in step.account() if cost.operation.startswith("dot_general")}
    assert lines == {""} or all("test_compile" in line for line in lines)


def broken(x: Any) -> Any:
    y = torch.relu(x @ x)
    torch._dynamo.graph_break()
    return y @ y


def test_two_cores_have_the_bits_of_one_in_less_time() -> None:
    """A layer by the option of torch.compile, and by profile: forward and backward."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU())
    x = torch.randn(512, 256)
    options = {"cores": 2, "mode": "instructions"}
    made = torch.compile(model, backend="trn3", dynamic=False, options=options)(x)
    one, whole = trn3.torch.profile(model, x)
    other, shared = trn3.torch.profile(model, x, cores=2)
    assert torch.equal(one, made)
    assert torch.equal(one, other)
    assert shared.cores == 2
    assert shared.latency_us < 0.7 * whole.latency_us


def test_graph_breaks_stand_in_the_account(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(16, 16)
    assert_close(trn3.torch.compile(broken)(x), broken(x.double()))
    step = trn3.torch.account(broken, x)
    (found,) = step.breaks
    assert found.line.endswith(f"{FILE}:{broken.__code__.co_firstlineno + 2}")
    assert len(step.parts) == 2
    printed = capsys.readouterr().out
    assert "dot_general" in printed
    assert "graph break at" in printed


def test_the_account_leaves_state_as_it_is() -> None:
    model = torch.nn.BatchNorm1d(4)
    x = torch.randn(8, 4) + 3
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trn3.torch.compile(model).time(x)
    assert_close(dict(model.state_dict()), before, 0)
    trn3.torch.compile(model)(x)
    assert not torch.equal(model.running_mean, before["running_mean"])

"""FSDP2, tensor parallel and DTensor models; the unsharded model and NumPy are the oracles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.functional import gelu, silu
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import trn3.torch
from trn3 import collectives
from trn3.graph import GraphError
from trn3.torch.aten.refusal import AtenError
from trn3.torch.groups import members, replica_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE = Path(__file__).name
RANKS = 4
PAIR = 2
# torch asks tensors for gradients that FSDP made.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Forget what torch compiled and how it cut, which outlive process groups; leave none."""
    torch.manual_seed(0)
    _clear_sharding_prop_cache()
    yield
    _clear_sharding_prop_cache()
    torch._dynamo.reset()
    if dist.is_initialized():
        dist.destroy_process_group()


def fake_group(ranks: int, rank: int = 1) -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)


def world() -> Any:
    return dist.group.WORLD


def brought(rank: int, *shape: int) -> Any:
    return np.random.default_rng(rank).standard_normal(shape).astype(np.float32)


ALL = np.stack([brought(rank, 8, 4) for rank in range(RANKS)])
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "sum": (lambda x: functional.all_reduce(x, "sum", world()), lambda _: ALL.sum(0)),
    "avg": (lambda x: functional.all_reduce(x, "avg", world()), lambda _: ALL.mean(0)),
    "max": (lambda x: functional.all_reduce(x, "max", world()), lambda _: ALL.max(0)),
    "gather": (
        lambda x: functional.all_gather_tensor(x, 1, world()),
        lambda _: np.concatenate(list(ALL), 1),
    ),
    "scatter": (
        lambda x: functional.reduce_scatter_tensor(x, "sum", 0, world()),
        lambda rank: ALL.sum(0)[2 * rank : 2 * rank + 2],
    ),
    "scatter_columns": (
        lambda x: functional.reduce_scatter_tensor(x, "avg", 1, world()),
        lambda rank: ALL.mean(0)[:, rank : rank + 1],
    ),
    "to_all": (
        lambda x: functional.all_to_all_single(x, None, None, world()),
        lambda rank: ALL[:, 2 * rank : 2 * rank + 2].reshape(8, 4),
    ),
    "broadcast": (lambda x: functional.broadcast(x, 2, world()), lambda _: ALL[2]),
}


def test_collectives_are_those_of_numpy() -> None:
    def every(x: Any) -> Any:
        return {name: function(x) for name, (function, _) in COLLECTIVES.items()}

    def step(rank: int) -> Any:
        return trn3.torch.compile(every)(torch.from_numpy(ALL[rank]))

    for rank, found in enumerate(trn3.torch.run_on_ranks(step, RANKS)):
        for name, (_, expected) in COLLECTIVES.items():
            np.testing.assert_allclose(
                found[name], expected(rank), rtol=1e-6, atol=1e-6, err_msg=name
            )


def test_sums_have_the_bits_of_collectives() -> None:
    """One engine adds for graphs and `trn3.collectives`, between graphs too."""
    parts = [torch.from_numpy(ALL[rank].copy()) for rank in range(RANKS)]

    def step(rank: int) -> Any:
        total = trn3.torch.compile(lambda x: functional.all_reduce(x, "sum", world()))
        eager = parts[rank].clone()
        dist.all_reduce(eager)
        return total(parts[rank]), eager

    expected = collectives.all_reduce(list(ALL), "trn3", range(RANKS), order="index").outputs[0]
    for found in trn3.torch.run_on_ranks(step, RANKS):
        assert [one.numpy().tobytes() for one in found] == [expected.tobytes()] * 2


def test_gradients_go_through_collectives() -> None:
    """The forms with gradients: what is gathered forward is summed to parts backward."""

    def step(rank: int) -> Any:
        x = torch.from_numpy(ALL[rank]).requires_grad_()
        gathered = trn3.torch.compile(
            lambda x: functional.all_gather_tensor_autograd(x, 0, world()) ** 2
        )
        (gathered(x).sum() * (rank + 1)).backward()
        return x.grad

    for rank, found in enumerate(trn3.torch.run_on_ranks(step, RANKS)):
        np.testing.assert_allclose(found, 2 * ALL[rank] * 10, rtol=1e-5)


def test_groups_of_ranks_may_be_any() -> None:
    """Each rank knows its own group; together they know all."""

    def step(rank: int) -> Any:
        groups = [dist.new_group([0, 3]), dist.new_group([2, 1])]
        own = groups[rank in (1, 2)]
        total = trn3.torch.compile(lambda x: functional.all_reduce(x, "sum", own))
        return float(total(torch.tensor(float(rank))))

    assert trn3.torch.run_on_ranks(step, RANKS) == [3.0] * RANKS


def test_groups_beside_a_ranks_own_are_those_of_a_mesh() -> None:
    assert replica_groups([4, 5, 6, 7], 8) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert replica_groups([3, 7], 8) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert replica_groups([2], 3) == [[0], [1], [2]]
    with pytest.raises(AtenError, match=r"joins ranks \[0, 3\] of 8; allowed: groups of a mesh"):
        replica_groups([0, 3], 8)


class Block(torch.nn.Module):  # type: ignore[misc]
    """A layer with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(gelu(self.up(x)))


class Model(torch.nn.Module):  # type: ignore[misc]
    """Two layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


TENSOR_PARALLEL = {
    "layers.*.up": ColwiseParallel,
    "layers.*.down": RowwiseParallel,
}


def parallel(model: Any, mesh: Any) -> Any:
    plan = {name: style() for name, style in TENSOR_PARALLEL.items()}
    return parallelize_module(model, mesh, plan)


def sharded(model: Any, mesh: Any) -> Any:
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


def trained(model: Any, run: Any, x: Any, steps: int = 2) -> list[Any]:
    """Return the loss of each step."""
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses


def test_tensor_parallel_is_the_whole_model_forward_and_backward() -> None:
    x = torch.randn(4, 8)

    def step(_rank: int) -> Any:
        model = parallel(Model(), init_device_mesh("cpu", (PAIR,)))
        y = trn3.torch.compile(model)(x)
        y.square().sum().backward()
        gradients = {
            name: one.grad.full_tensor() if hasattr(one.grad, "full_tensor") else one.grad
            for name, one in model.named_parameters()
        }
        return y.detach(), gradients

    whole = Model()
    expected = whole(x)
    expected.square().sum().backward()
    for found, gradients in trn3.torch.run_on_ranks(step, PAIR):
        close(found, expected)
        for name, parameter in whole.named_parameters():
            close(gradients[name], parameter.grad)


def whole_parameters(model: Any) -> list[Any]:
    return [
        (one.full_tensor() if hasattr(one, "full_tensor") else one).detach()
        for one in model.parameters()
    ]


def fsdp(_rank: int) -> Any:
    return sharded(Model(), init_device_mesh("cpu", (PAIR,)))


def fsdp_of_copies(_rank: int) -> Any:
    return sharded(Model(), init_device_mesh("cpu", (2, 2), mesh_dim_names=("copy", "part")))


def fsdp_of_tensor_parallel(_rank: int) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    return sharded(parallel(Model(), mesh["model"]), mesh["data"])


def data_parallel(_rank: int) -> Any:
    return DistributedDataParallel(Model())


@pytest.mark.parametrize(
    ("build", "ranks", "copies"),
    [(fsdp, 2, 2), (fsdp_of_copies, 4, 4), (fsdp_of_tensor_parallel, 4, 2), (data_parallel, 2, 2)],
)
def test_data_parallel_trains_as_the_whole_model(build: Any, ranks: int, copies: int) -> None:
    """Parameters are gathered and gradients scattered between graphs, by FSDP's own hooks."""
    x, steps = torch.randn(2 * copies, 8), 2 if build is fsdp else 1

    def step(rank: int) -> Any:
        model, own = build(rank), rank * copies // ranks
        # By its name torch finds one backend for all: each rank captures for itself all the same.
        compiled = torch.compile(model, backend="trn3")
        losses = trained(model, compiled, x[2 * own : 2 * own + 2], steps)
        return losses, whole_parameters(model)

    whole = Model()
    losses = trained(whole, whole, x, steps)
    found = trn3.torch.run_on_ranks(step, ranks)
    for place, loss in enumerate(losses):
        close(torch.stack([own[place] for own, _ in found]).mean(), loss)
    for _, parameters in found:
        for one, parameter in zip(parameters, whole.parameters(), strict=True):
            close(one, parameter)


class Language(torch.nn.Module):  # type: ignore[misc]
    """A table of tokens, a norm, a layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table, self.norm = torch.nn.Embedding(16, 8), torch.nn.LayerNorm(8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.head = torch.nn.Linear(8, 16, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        return self.head(x + self.down(silu(self.up(self.norm(x)))))


def test_ranks_own_numbers_and_parts_are_inputs_of_one_program() -> None:
    """A table cut by rows asks for the rank's first, a sequence for its part."""
    tokens = torch.arange(16).reshape(2, 8) % 13

    def step(rank: int) -> Any:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        plan = {
            "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        model = parallelize_module(Language(), mesh["model"], plan)
        row = tokens[rank // 2 : rank // 2 + 1]
        y = trn3.torch.compile(model)(row)
        y.square().sum().backward()
        return y.detach(), [one.grad.full_tensor() for one in model.parameters()]

    whole = Language()
    expected = whole(tokens)
    expected.square().sum().backward()
    found = trn3.torch.run_on_ranks(step, RANKS)
    for rank, (y, _) in enumerate(found):
        close(y, expected[rank // 2 : rank // 2 + 1])
    for one, other, parameter in zip(found[0][1], found[2][1], whole.parameters(), strict=True):
        close(one + other, parameter.grad)


def test_dtensors_are_laid_out_anew_in_graphs() -> None:
    whole = torch.arange(32.0).reshape(4, 8)

    def step(_rank: int) -> Any:
        mesh = init_device_mesh("cpu", (2, 2))
        x = distribute_tensor(whole, mesh, [Shard(0), Replicate()])

        @trn3.torch.compile
        def function(x: Any) -> Any:
            turned = x.redistribute(placements=[Replicate(), Shard(1)])
            turned = turned.redistribute(placements=[Shard(1), Shard(0)])
            return (turned * 2).redistribute(placements=[Shard(0), Shard(1)])

        y = function(x)
        return y.to_local().shape, y.full_tensor()

    for shape, found in trn3.torch.run_on_ranks(step, RANKS):
        assert tuple(shape) == (2, 4)
        assert torch.equal(found, whole * 2)


def test_what_torch_calls_between_graphs_is_exchanged() -> None:
    def step(rank: int) -> Any:
        total, parts = torch.full((4,), float(rank)), [torch.zeros(2) for _ in range(RANKS)]
        dist.all_reduce(total, op=dist.ReduceOp.MAX)
        dist.all_gather(parts, torch.full((2,), rank + 0.5))
        mean = torch.zeros(2)
        rows = [torch.full((2,), float(place + rank)) for place in range(RANKS)]
        dist.reduce_scatter(mean, rows, op=dist.ReduceOp.AVG)
        turned = torch.zeros(RANKS)
        dist.all_to_all_single(turned, torch.arange(4.0) + 10 * rank)
        told: list[Any] = [{"from": rank}]
        dist.broadcast_object_list(told, 1)
        dist.barrier()
        return total[0], torch.cat(parts)[::2], mean[0], turned, told

    for rank, (total, parts, mean, turned, told) in enumerate(trn3.torch.run_on_ranks(step, RANKS)):
        assert (float(total), float(mean), told) == (3.0, rank + 1.5, [{"from": 1}])
        assert parts.tolist() == [0.5, 1.5, 2.5, 3.5]
        assert turned.tolist() == [rank, 10 + rank, 20 + rank, 30 + rank]


def test_ranks_draw_alike_and_leave_nothing_behind() -> None:
    state, hook = torch.get_rng_state(), sys.excepthook

    def step(_rank: int) -> Any:
        first = torch.rand(2)
        dist.all_reduce(torch.zeros(1))
        return torch.cat([first, torch.rand(2)])

    found = trn3.torch.run_on_ranks(step, RANKS)
    assert all(torch.equal(one, found[0]) for one in found)
    assert torch.equal(torch.get_rng_state(), state)
    assert (dist.is_initialized(), sys.excepthook) == (False, hook)
    assert float(trn3.torch.compile(lambda x: x + 1)(torch.zeros(()))) == 1.0


def summed(x: Any) -> Any:
    return functional.all_reduce(x, "sum", world())


def ends_early(rank: int) -> Any:
    return None if rank == 3 else trn3.torch.compile(summed)(torch.ones(2))


def differs(rank: int) -> Any:
    other = lambda x: summed(torch.sin(x))  # noqa: E731
    return trn3.torch.compile(other if rank == 2 else summed)(torch.ones(2))


def fails(rank: int) -> Any:
    if rank == 1:
        raise GraphError("of its own")
    return ends_early(rank)


REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "early": (ends_early, r"rank 0 waits in vain in the graph 'forward': rank 3 has ended"),
    "differs": (differs, r"operation 0: rank 0 has all_reduce, rank 2 has sine; allowed"),
    "fails": (fails, "of its own"),
    "product": (
        lambda _: trn3.torch.compile(lambda x: functional.all_reduce(x, "product", world()))(
            torch.ones(2)
        ),
        rf"{FILE}:\d+: _c10d_functional.all_reduce: joins by product; allowed: sum",
    ),
    "uneven": (
        lambda _: trn3.torch.compile(
            lambda x: functional.all_to_all_single(x, [1, 2, 3, 2], [1, 2, 3, 2], world())
        )(torch.ones(8)),
        r"all_to_all_single: output_split_sizes are \[1, 2, 3, 2\]; allowed: equal parts",
    ),
    "send": (lambda rank: dist.send(torch.ones(2), 1 - rank), "c10d.send: is no operation"),
    "nested": (lambda _: trn3.torch.run_on_ranks(ends_early, 2), "in a rank of another run"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_ranks_cannot_do_is_refused(name: str) -> None:
    step, text = REFUSED[name]
    with pytest.raises(GraphError, match=text):
        trn3.torch.run_on_ranks(step, RANKS)


def test_a_number_of_ranks_is_checked() -> None:
    with pytest.raises(ValueError, match="world_size is 0; allowed: 1 to 1024"):
        trn3.torch.run_on_ranks(ends_early, 0)
    (alone,) = trn3.torch.run_on_ranks(ends_early, 1)
    assert alone.tolist() == [1.0, 1.0]


def test_values_that_are_nowhere_are_refused() -> None:
    """Of a fake group one rank is here."""
    fake_group(RANKS)
    model = parallel(Model(), init_device_mesh("cpu", (RANKS,)))
    with pytest.raises(GraphError, match=r"rank 1 of 4 runs alone, .* trn3.torch.run_on_ranks"):
        torch.compile(model, backend="trn3")(torch.randn(4, 8))
    with pytest.raises(GraphError, match=r"trn3\.torch\.account"):
        trn3.torch.compile(sharded(Model(), init_device_mesh("cpu", (RANKS,))))(torch.randn(4, 8))


def test_a_rank_of_a_large_mesh_is_timed() -> None:
    """Collectives take the time of their groups on the system."""
    fake_group(64, rank=13)
    mesh = init_device_mesh("cpu", (8, 8), mesh_dim_names=("data", "model"))
    model = parallel(Model(), mesh["model"])
    x = torch.randn(128, 8)
    result, step = trn3.torch.profile(model, x, system="trn3", ranks_per_chip=4)
    assert result is None
    rows = [row for row in step.account() if row.template == "collective"]
    assert [row.operation.partition(".")[0] for row in rows] == ["all_reduce"] * 2
    seconds = collectives.time("all_reduce", 128 * 8 * 4, "trn3", range(8)).time
    assert rows[0].busy_us == pytest.approx(seconds * 1e6, rel=1e-3)
    spread = trn3.torch.compile(model, system="trn3", ranks_per_chip=1).time(x)
    assert spread.latency_us > step.latency_us
    (graph,) = trn3.torch.compile(model).graphs(x)
    assert graph.ranks == 64


def test_a_group_that_is_gone_is_named() -> None:
    fake_group(4)
    with pytest.raises(AtenError, match=r"process group '77', which is gone; torch remembers"):
        members("77")


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.product = torch.nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        return gelu(self.product(x))


def test_equal_layers_are_timed_once() -> None:
    """Without values: each graph is scheduled once, however often a step runs it."""
    fake_group(8)
    model = torch.nn.Sequential(*(Layer() for _ in range(4)))
    for layer in model:
        fully_shard(layer, mesh=init_device_mesh("cpu", (8,)))

    def step(x: Any) -> Any:
        return model(x)

    cost = trn3.torch.compile(step, system="trn3").time(torch.randn(4, 16))
    layers = [part for part in cost.parts if part.account()[0].template != "collective"]
    # Of the first one the input needs no gradient: that is another graph.
    assert (len(layers), len({id(part) for part in layers})) == (4, 2)
    assert cost.latency_us == sum(part.latency_us for part in cost.parts)


def test_fsdp_is_timed_with_what_its_hooks_call(capsys: pytest.CaptureFixture[str]) -> None:
    fake_group(16)
    model = sharded(Model(), init_device_mesh("cpu", (16,)))

    def step(x: Any) -> None:
        model(x).square().mean().backward()

    cost = trn3.torch.account(step, torch.randn(4, 8), system="trn3")
    assert "reduce_scatter" in capsys.readouterr().out
    rows = [
        row.operation.partition(".")[0] for row in cost.account() if row.template == "collective"
    ]
    assert (rows.count("all_gather"), rows.count("reduce_scatter")) == (5, 3)
    between = [part for part in cost.parts if part.account()[0].template == "collective"]
    assert cost.latency_us == pytest.approx(sum(part.latency_us for part in cost.parts))
    hidden = max(
        sum(part.band[0] for part in between),
        sum(part.band[0] for part in cost.parts if part not in between),
    )
    assert cost.band[0] == pytest.approx(hidden)


def test_ranks_by_instructions_have_the_same_bits() -> None:
    def step(rank: int) -> Any:
        x = torch.from_numpy(brought(rank, 64, 64))
        function = trn3.torch.compile(lambda x: functional.all_reduce(x @ x, "sum", world()))
        y, cost = function.profile(x)
        return torch.equal(y, function(x)), [row.template for row in cost.account()][-1]

    assert trn3.torch.run_on_ranks(step, 2) == [(True, "collective")] * 2


def test_groups_of_one_rank_need_no_others() -> None:
    """A real group of one process simply works."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.randn(4, 8)
    compiled = torch.compile(summed, backend="trn3")
    assert torch.equal(compiled(x), x)
    model, whole = sharded(Model(), init_device_mesh("cpu", (1,))), Model()
    losses = trained(model, trn3.torch.compile(model), x)
    for found, loss in zip(losses, trained(whole, whole, x), strict=True):
        close(found, loss)


def test_what_was_captured_for_one_rank_is_not_another_ones() -> None:
    fake_group(RANKS)
    compiled = trn3.torch.compile(torch.sin)
    assert compiled.time(torch.ones(3)).latency_us > 0
    dist.destroy_process_group()
    with pytest.raises(GraphError, match="captured as rank 1 of 4 and called as rank 0 of 1"):
        compiled(torch.ones(3))

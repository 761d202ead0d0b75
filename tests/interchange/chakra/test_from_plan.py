"""Steps of plans as traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

import trn3
from trn3.interchange import chakra
from trn3.interchange.chakra import NodeType
from trn3.planner import Plan

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "tensor": ("openai/gpt-oss-120b", {"tp": 8, "batch": 8}),
    "pipeline": ("llama-3-8b", {"tp": 4, "pp": 2, "batch": 4}),
    "experts": ("deepseek-v3", {"tp": 8, "dp": 8, "batch": 64}),
    "context": ("openai/gpt-oss-120b", {"tp": 4, "dp": 2, "cp": 2, "batch": 8}),
}


def plan(name: str) -> Plan:
    model, layout = PLANS[name]
    return trn3.plan(model, "gen2", context=4_000, **layout)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("name", PLANS)
def test_from_plan_keeps_the_plans_times(name: str, phase: Literal["decode", "prefill"]) -> None:
    given = plan(name)
    traces = chakra.from_plan(given, phase)
    assert len(traces) == given.layout.ranks
    parts = getattr(given, phase)
    # A trace begins with the first operation, behind what the host takes to start a request.
    others = ("links", "host")
    computing = (
        sum(part.seconds for part in parts.parts if not part.resource.startswith(others))
        * given.layout.pp
    )
    # One rank of each stage, as tensor parallelism is innermost.
    stages = traces[:: given.layout.ranks // given.layout.pp]
    made = sum(node.get("duration_ps", 0) for trace in stages for node in trace.nodes)
    assert made * 1e-12 == pytest.approx(computing, rel=1e-6)
    rounded = sum(node.duration_micros for trace in stages for node in trace.nodes)
    assert rounded == pytest.approx(made * 1e-6, abs=len(stages))


@pytest.mark.parametrize("name", PLANS)
def test_from_plan_replays_in_about_the_plans_time(name: str) -> None:
    given = plan(name)
    result = chakra.replay(chakra.from_plan(given), "gen2")
    # The plan's collectives come from closed forms by level, the replay's from schedules.
    assert result.finish == pytest.approx(given.decode.seconds * given.layout.pp, rel=0.1)


def test_from_plan_has_every_layer_once() -> None:
    traces = chakra.from_plan(plan("tensor"))
    counts = Counter(node.name for node in traces[0].nodes)
    assert counts["qkv"] == counts["experts all-reduce"] == 36
    assert counts["attention"] == counts["window_attention"] == 18
    assert counts["unembedding"] == 1
    names = [node.name for node in traces[0].nodes]
    kinds = [n for n in names if n in {"attention", "window_attention"}]
    assert all(a != b for a, b in zip(kinds[::2], kinds[1::2], strict=True))
    deepseek = [node.name for node in chakra.from_plan(plan("experts"))[0].nodes]
    assert deepseek.index("mlp_out") < deepseek.index("experts_in")
    assert (deepseek.count("mlp_in"), deepseek.count("experts_in")) == (3, 58)


def test_from_plan_sends_between_stages() -> None:
    traces = chakra.from_plan(plan("pipeline"))
    types = [Counter(node.type for node in trace.nodes) for trace in traces]
    assert [t[NodeType.COMM_SEND_NODE] for t in types] == [1] * 4 + [0] * 4
    assert [t[NodeType.COMM_RECV_NODE] for t in types] == [0] * 4 + [1] * 4
    assert traces[1].nodes[-1].get("comm_dst") == 5


def test_to_chakra_writes_a_file_for_each_rank(tmp_path: Path) -> None:
    given = plan("pipeline")
    files = given.to_chakra(tmp_path / "step")
    assert [path.name for path in files] == [f"step.{rank}.et" for rank in range(8)]
    assert chakra.read_ranks(tmp_path / "step") == chakra.from_plan(given)


def test_from_plan_refuses_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="phase is 'train'; allowed: 'decode', 'prefill'"):
        chakra.from_plan(plan("pipeline"), "train")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plan is str; needed"):
        chakra.from_plan("llama-3-8b")  # type: ignore[arg-type]
    guessed = trn3.plan(
        "llama-3-8b",
        "gen2",
        tp=4,
        batch=1,
        speculation={"length": 4, "accepted": 2.5, "draft_share": 0.05},
    )
    with pytest.raises(ValueError, match="speculation"):
        chakra.from_plan(guessed)

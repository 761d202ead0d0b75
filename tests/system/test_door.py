"""Long calls of systems and plans let signals through, and errors name what was asked."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from trn3 import planner, systems
from trn3.planner import search

GEN2 = systems.trn3_gen2()

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX timers")


class TimeIsUpError(Exception):
    """What the handler raises."""


def messages() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, len(GEN2), (20_000, 2)).tolist()
    sizes = rng.integers(1, 10**9, 20_000).tolist()
    return [
        {"source": a, "target": b, "bytes": float(size)}
        for (a, b), size in zip(ends, sizes, strict=True)
    ]


def reduces() -> object:
    arrays = [np.zeros(1 << 16, np.float32)] * GEN2.ranks
    return GEN2.all_reduce(arrays, algorithm="ring")


def repeat(call: Callable[[], object], seconds: float) -> None:
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        call()


CALLS: dict[str, Callable[[], object]] = {
    "all_reduce": reduces,
    "collective_time": lambda: GEN2.collective_time("all_reduce", 1e6, algorithm="mesh"),
    "search": lambda: search(
        "gpt-oss-120b", "gen2", input_tokens=8000, output_tokens=1000, collectives="schedules"
    ),
}


@pytest.fixture
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeIsUpError

    # What is raised while garbage is collected reaches nobody.
    gc.disable()
    earlier = signal.signal(signal.SIGALRM, ring)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, earlier)
    gc.enable()


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("name", CALLS)
def test_what_a_signal_s_handler_raises_ends_the_call(name: str) -> None:
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    with pytest.raises(TimeIsUpError):
        CALLS[name]()
    assert time.monotonic() - start < 2


@pytest.mark.usefixtures("_alarm")
def test_a_simulation_of_many_messages_is_ended() -> None:
    asked = messages()
    begun = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    with pytest.raises(TimeIsUpError):
        repeat(lambda: GEN2.simulate(asked), 30)
    assert time.monotonic() - begun < 3


def config(**others: object) -> dict[str, object]:
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "vocab_size": 1000,
        **others,
    }


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"rope_theta": float("nan")}, ValueError, r"rope_theta is nan; needed: a finite number"),
        ({"rope": {"factors": [1.0, float("inf")]}}, ValueError, r"rope.factors\[1\] is inf"),
        ({"torch_dtype": object()}, TypeError, r"torch_dtype is of type object"),
        ({"hidden_size": "wide"}, ValueError, r"hidden_size"),
    ],
)
def test_errors_name_the_entry_and_no_place_in_a_text(
    wrong: dict[str, object], error: type[Exception], text: str
) -> None:
    assert planner.model(config()).layers == 2
    with pytest.raises(error, match=text) as raised:
        planner.model(config(**wrong))
    assert "column" not in str(raised.value)
    assert "line" not in str(raised.value)


def test_values_nested_too_deep_are_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="lies deeper than 128"):
        planner.model(config(more=deep))

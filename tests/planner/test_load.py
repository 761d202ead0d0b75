"""`trn3.serve` and `trn3.planner.size`: arguments, answers, and what holds for all traffic."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3
from trn3.planner import DoesNotFitError, live, size

SMALL: dict[str, Any] = {"tp": 8, "input_tokens": 512, "output_tokens": 32, "bands": False}


def serve(**options: Any) -> Any:
    return trn3.serve("llama-3-8b", "trn2", **{**SMALL, **options})


def test_keys_are_those_of_vllms_benchmark() -> None:
    """A reader of ``vllm bench serve`` finds every key that it knows."""
    document = serve(rate=20, requests=100, goodput={"ttft": 200}, bands=True).to_dict()
    plain = (
        "duration", "completed", "failed", "num_prompts", "request_rate", "max_concurrency",
        "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
        "output_throughput", "total_token_throughput",
    )  # fmt: skip
    figures = ("mean", "median", "std", "p50", "p90", "p95", "p99")
    waits = [f"{of}_{name}_ms" for of in figures for name in ("ttft", "tpot", "itl", "e2el")]
    assert set(plain) | set(waits) <= document.keys()
    assert document["median_ttft_ms"] == document["p50_ttft_ms"]
    assert document["request_rate"] == 20
    for name in waits:
        low, high = document["bands"][name]
        assert low <= document[name] <= high
    assert document["request_goodput"] <= document["request_throughput"]
    json.dumps(document, allow_nan=False)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again, other = (
        json.dumps(serve(rate=30, requests=200, seed=seed).to_dict()) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_rate_of_inf_is_a_text_as_in_vllms_files() -> None:
    assert serve(rate="inf", requests=20).to_dict()["request_rate"] == "inf"
    assert serve(users=4, requests=20).to_dict()["request_rate"] is None
    assert serve(users=4, requests=20).to_dict()["max_concurrency"] == 4


def test_degrees_left_open_are_those_of_the_plan_for_one_request() -> None:
    plan = trn3.plan("llama-3-8b", "trn2", batch=1, input_tokens=512, output_tokens=32)
    served = trn3.serve(
        "llama-3-8b", "trn2", users=1, requests=5, input_tokens=512, output_tokens=32, bands=False
    )
    layout = served.models[0]["plan"]["layout"]
    assert (layout["tp"], layout["pp"], layout["dp"]) == (
        plan.layout.tp,
        plan.layout.pp,
        plan.layout.dp,
    )
    assert served.models[0]["replicas"] == 1
    assert served.mean_ttft_ms == pytest.approx(1e3 * plan.ttft, rel=0.05)
    assert served.mean_tpot_ms == pytest.approx(1e3 * plan.tpot, rel=0.05)


def test_percentiles_are_numpys() -> None:
    """With one user every wait is a request's own; quantiles of few values lie between them."""
    served = serve(users=1, requests=7, input_tokens="uniform:100:3000", pause=0)
    assert served.p50_ttft_ms <= served.p90_ttft_ms <= served.p99_ttft_ms
    assert served.std_ttft_ms > 0
    assert served.mean_e2el_ms == pytest.approx(
        served.mean_ttft_ms + 31 * served.mean_tpot_ms, rel=1e-6
    )


@pytest.mark.parametrize(
    "options",
    [
        {"replicas": 4},
        {"input_tokens": 256},
        {"max_num_seqs": 256},
    ],
)
def test_more_never_hurts_the_mean(options: dict[str, Any]) -> None:
    """More replicas, shorter prompts, more sequences: means over the same arrivals."""
    base = {"rate": 60, "requests": 1500, "max_num_seqs": 32, "replicas": 1}
    before = statistics.mean(serve(**base, seed=seed).mean_e2el_ms for seed in range(3))
    changed = {**base, **options}
    after = statistics.mean(serve(**changed, seed=seed).mean_e2el_ms for seed in range(3))
    assert after <= before * 1.01


@settings(max_examples=25, deadline=None)
@given(
    rate=st.one_of(st.just("inf"), st.floats(0.5, 500)),
    sequences=st.integers(1, 40),
    blocks=st.integers(80, 400),
    chunked=st.booleans(),
    caching=st.booleans(),
    swap=st.booleans(),
    replicas=st.sampled_from([{"replicas": 1}, {"replicas": 3},
                              {"prefill_replicas": 1, "decode_replicas": 2}]),
    router=st.sampled_from(["least_loaded", "round_robin", "prefix_aware"]),
    turns=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_no_token_is_made_or_lost(
    rate: float | str,
    sequences: int,
    blocks: int,
    chunked: bool,
    caching: bool,
    swap: bool,
    replicas: dict[str, int],
    router: str,
    turns: int,
    seed: int,
) -> None:
    """Whatever the server does, each request gets its tokens, and Little's law holds."""
    served = serve(
        rate=rate,
        requests=60,
        input_tokens="uniform:1:300",
        output_tokens="uniform:1:40",
        turns=turns,
        prefix=50,
        max_num_seqs=sequences,
        kv_blocks=blocks,
        chunked_prefill=chunked,
        prefix_caching=caching,
        preemption_mode="swap" if swap else "recompute",
        router=router,
        seed=seed,
        **replicas,
    )
    assert served.completed == served.num_prompts == 60
    again = serve(rate="inf", requests=60, input_tokens="uniform:1:300", turns=turns, prefix=50,
                  output_tokens="uniform:1:40", seed=seed)  # fmt: skip
    assert served.total_output_tokens == again.total_output_tokens
    assert served.total_input_tokens == again.total_input_tokens
    assert served.little["under_way"] == pytest.approx(served.little["rate_times_time"], rel=1e-9)


def test_a_known_prefix_is_not_read_again() -> None:
    plain = serve(rate=5, requests=100, prefix=2048)
    cached = serve(rate=5, requests=100, prefix=2048, prefix_caching=True)
    looked_up, found = cached.models[0]["prefix_cache"]
    assert found > 0.7 * looked_up
    assert cached.p50_ttft_ms < 0.7 * plain.p50_ttft_ms
    assert cached.models[0]["prompt_tokens_read"] + found == plain.models[0]["prompt_tokens_read"]


def test_turns_of_a_conversation_find_their_past() -> None:
    served = serve(rate=2, requests=60, turns=4, prefix_caching=True)
    looked_up, found = served.models[0]["prefix_cache"]
    # Of four turns the later three find all but the newest part.
    assert found / looked_up > 0.5


def test_speculation_ends_sooner_and_makes_the_same_tokens() -> None:
    guessing = {"speculation": {"length": 4, "accepted": 3.0, "draft_share": 0.05}}
    plain, guessed = (serve(users=2, requests=50, **more) for more in ({}, guessing))
    assert guessed.total_output_tokens == plain.total_output_tokens
    assert guessed.mean_tpot_ms < plain.mean_tpot_ms
    certain = serve(users=2, requests=50, acceptance=[1.0] * 4, **guessing)
    assert certain.mean_tpot_ms < guessed.mean_tpot_ms


def test_a_full_queue_turns_requests_away() -> None:
    served = serve(rate="inf", requests=100, max_num_seqs=4, max_queue=10)
    assert served.failed > 0
    assert served.completed + served.failed == served.num_prompts == 100


def test_priorities_go_first() -> None:
    """With a queue, half of the requests wait less at the cost of the others, not of the mean."""
    plain = serve(rate="inf", requests=200, max_num_seqs=4, priorities="0@0.5,1@0.5")
    ordered = serve(
        rate="inf",
        requests=200,
        max_num_seqs=4,
        priorities="0@0.5,1@0.5",
        scheduling_policy="priority",
    )
    assert ordered.mean_ttft_ms == pytest.approx(plain.mean_ttft_ms, rel=0.02)


def test_replicas_come_and_go_with_the_load() -> None:
    served = serve(
        arrival="on_off",
        on=60,
        off=600,
        rate=10,
        requests=6000,
        max_num_seqs=16,
        autoscaling={"least": 1, "most": 6, "target": 8, "patience": 60, "startup": 20},
    )
    assert max(served.timeline.replicas) > 1
    assert served.timeline.replicas[0] == 1
    assert served.chips < 6 * 8 / 4


def test_several_models_share_the_traffic() -> None:
    served = serve(
        rate=20,
        requests=200,
        others=[{"model": "llama-3.3-70b", "tp": 16}],
        shares=[0.75, 0.25],
    )
    assert [one["plan"]["model"]["name"] for one in served.models] == [
        "llama-3-8b",
        "llama-3.3-70b",
    ]
    assert served.completed == 200


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"rate": -1}, ValueError, "rate"),
        ({"tp": 3}, ValueError, "tp is 3"),
        ({"max_num_seqs": 0}, ValueError, "max_num_seqs is 0"),
        ({"input_tokens": 10**6}, ValueError, "tokens"),
        ({"kv_blocks": 4}, DoesNotFitError, "tokens of keys and values"),
        ({"router": "nearest"}, ValueError, "router"),
        ({"nonsense": 1}, TypeError, "nonsense"),
        ({"prefill_replicas": 2}, ValueError, "decode"),
        ({"acceptance": [0.5]}, ValueError, "speculation"),
        ({"trace": "a.csv"}, ValueError, "input"),
        ({"autoscaling": {"most": 2, "target": 0}}, ValueError, "target"),
        ({"scheduling_policy": "lifo"}, ValueError, "fcfs"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        serve(**{"requests": 10, "rate": 1, **options})


def test_what_does_not_fit_says_so_in_the_plans_words() -> None:
    with pytest.raises(DoesNotFitError, match="does not fit"):
        trn3.serve("llama-3.1-405b", "trn2", tp=1, requests=1)


def test_the_least_machines_keep_the_limits() -> None:
    found = size(
        "llama-3-8b",
        "50 req/s, p99 ttft < 1 s, p99 tpot < 50 ms",
        ["trn2", "gen2"],
        tp=8,
        max_num_seqs=64,
        input_tokens=512,
        output_tokens=32,
    )
    assert len(found.systems) == 2
    for one in found.systems:
        assert one.best is not None
        waits = one.best.served.waits
        assert waits["p99_ttft_ms"] < 1000
        assert waits["p99_tpot_ms"] < 50
        chips = [one.best.chips, *(fleet.chips for fleet in one.frontier)]
        assert chips == sorted(chips)
    none = size("llama-3-8b", "1 req/s, p99 ttft < 1 us", ["trn2"], tp=8, max_num_seqs=8)
    assert none.systems[0].best is None
    assert none.systems[0].why_not


def test_a_service_is_driven_from_outside() -> None:
    """The same requests at the same times get the same tokens, whoever drives."""
    service = live("llama-3-8b", "trn2", tp=8)
    requests = {service.submit(0.1 * place, 100 + place, 5): 0.1 * place for place in range(1)}
    ends: dict[int, float] = {}
    tokens: dict[int, int] = {}
    for place in range(1, 20):
        for number, at, count, last in service.advance(0.1 * place):
            tokens[number] = tokens.get(number, 0) + count
            if last:
                ends[number] = at
        requests[service.submit(0.1 * place, 100 + place, 5)] = 0.1 * place
    while (at := service.next_event()) is not None:
        for number, when, count, last in service.advance(at):
            tokens[number] = tokens.get(number, 0) + count
            if last:
                ends[number] = when
    assert set(tokens.values()) == {5}
    assert all(ends[number] > sent for number, sent in requests.items())
    assert service.state()["running"] == service.state()["waiting"] == 0


def test_prompts_of_the_same_tokens_are_known() -> None:
    service = live("llama-3-8b", "trn2", tp=8, prefix_caching=True)
    tokens = list(np.arange(1000))
    service.submit(0.0, [int(token) for token in tokens], 3)
    service.advance(100.0)
    service.submit(100.0, [int(token) for token in tokens], 3)
    service.advance(200.0)
    assert service.state()["prefix_cache_hits"] == 992


def test_a_client_that_leaves_gets_nothing_more() -> None:
    service = live("llama-3-8b", "trn2", tp=8, max_num_seqs=1)
    first, second = service.submit(0.0, 100, 50), service.submit(0.0, 100, 50)
    service.advance(0.0)
    service.cancel(second, 0.0)
    service.cancel(first, 0.0)
    got = service.advance(1000.0)
    assert got == []
    assert service.next_event() is None
    assert service.state()["kv_cache_usage"] == 0


def test_a_full_queue_is_said_to_who_drives() -> None:
    service = live("llama-3-8b", "trn2", tp=8, max_num_seqs=1, max_queue=1)
    service.submit(0.0, 100, 50)
    service.submit(0.0, 100, 50)
    with pytest.raises(OverflowError, match="full"):
        service.submit(0.0, 100, 50)
    with pytest.raises(ValueError, match="tokens"):
        service.submit(0.0, 10**7, 50)

"""What the endpoint counts, held against what was asked."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from support.live_machine import FakeLiveServer, Served
from trn3.endpoint.metrics import TimeHistogram

LABELS = {"model_name": "fake/model", "engine": "0"}


def samples(url: str) -> dict[tuple[str, str], float]:
    """Return all samples, by name and by what they have besides the usual labels."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            assert LABELS.items() <= sample.labels.items()
            rest = {key: value for key, value in sample.labels.items() if key not in LABELS}
            found[sample.name, "".join(rest.values())] = sample.value
    return found


def test_all_that_is_asked_and_answered_is_counted(serve: Callable[..., Served]) -> None:
    """Three answers of four tokens; a step is 0.25 s, and each request is alone."""
    endpoint = serve(FakeLiveServer(step=0.25))
    with OpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0) as client:
        for _ in range(2):
            client.completions.create(model="fake/model", prompt=[1, 2, 3], max_tokens=4)
        client.chat.completions.create(
            model="fake/model", messages=[{"role": "user", "content": "x"}], max_tokens=4
        )
    found = samples(endpoint.url)
    assert found["vllm:prompt_tokens_total", ""] == 3 + 3 + 2
    assert found["vllm:generation_tokens_total", ""] == 12
    assert found["vllm:request_success_total", "length"] == 3
    assert found["vllm:request_success_total", "stop"] == 0
    assert found["vllm:request_success_total", "abort"] == 0
    for name, count, sum_seconds in (
        ("vllm:time_to_first_token_seconds", 3, 0.75),
        ("vllm:inter_token_latency_seconds", 9, 2.25),
        ("vllm:time_per_output_token_seconds", 9, 2.25),
        ("vllm:e2e_request_latency_seconds", 3, 3.0),
    ):
        assert found[f"{name}_count", ""] == count
        assert found[f"{name}_sum", ""] == pytest.approx(sum_seconds)
        assert found[f"{name}_bucket", "+Inf"] == count
    assert found["vllm:inter_token_latency_seconds_bucket", "0.2"] == 0
    assert found["vllm:inter_token_latency_seconds_bucket", "0.3"] == 9
    assert found["trn3:simulated_seconds", ""] == pytest.approx(3.0)


def test_the_machines_state_is_told(serve: Callable[..., Served]) -> None:
    class StillServer(FakeLiveServer):
        def state(self) -> dict[str, float]:
            return {
                "running": 3,
                "waiting": 2,
                "kv_cache_usage": 0.5,
                "preemptions": 7,
                "prefix_cache_queries": 100,
                "prefix_cache_hits": 40,
            }

    found = samples(serve(StillServer()).url)
    assert found["vllm:num_requests_running", ""] == 3
    assert found["vllm:num_requests_waiting", ""] == 2
    assert found["vllm:kv_cache_usage_perc", ""] == 0.5
    assert found["vllm:gpu_cache_usage_perc", ""] == 0.5
    assert found["vllm:num_preemptions_total", ""] == 7
    assert found["vllm:prefix_cache_queries_total", ""] == 100
    assert found["vllm:prefix_cache_hits_total", ""] == 40


def test_a_bucket_has_what_equals_its_end() -> None:
    times = TimeHistogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        times.add(value)
    assert times.cumulated() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]

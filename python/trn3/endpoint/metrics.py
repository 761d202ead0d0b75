"""What the endpoint counts, under the names that vLLM has for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from trn3.endpoint.live_server import LiveServerProtocol

#: Upper ends of vLLM's buckets.
FIRST_TOKEN_SECONDS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_SECONDS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
REQUEST_SECONDS: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SIMULATED: Final = "in simulated seconds"


class TimeHistogram:
    """Counts times by buckets.

    Parameters
    ----------
    bounds
        Upper ends of the buckets, ascending; a last one has all above.

    Examples
    --------
    >>> times = TimeHistogram((0.1, 1.0))
    >>> for seconds in (0.1, 0.5, 3.0):
    ...     times.add(seconds)
    >>> times.counts, times.sum
    ([1, 1, 1], 3.6)
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a time."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulated(self) -> list[tuple[str, float]]:
        """Return, for each upper end, how many times are not above it."""
        ends = [*map(str, self.bounds), "+Inf"]
        return list(zip(ends, map(float, accumulate(self.counts)), strict=True))


class Metrics(Collector):
    """Counts what a machine is asked and what it answers, for Prometheus.

    Parameters
    ----------
    machine
        Whose state is told.
    """

    def __init__(self, machine: LiveServerProtocol) -> None:
        self._machine = machine
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self.prompted = 0
        self.generated = 0
        self.aborted = 0
        #: Answers, by what ended them.
        self.ended = {"stop": 0, "length": 0}
        self.first_token = TimeHistogram(FIRST_TOKEN_SECONDS)
        self.next_token = TimeHistogram(TOKEN_SECONDS)
        self.request = TimeHistogram(REQUEST_SECONDS)

    def document(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield what Prometheus reads."""
        names = ["model_name", "engine"]
        labels = [self._machine.model, "0"]
        state = self._machine.state()
        for name, help_text, value in (
            ("vllm:num_requests_running", "Requests that are being served.", state["running"]),
            ("vllm:num_requests_waiting", "Requests in the queue.", state["waiting"]),
            (
                "vllm:kv_cache_usage_perc",
                "Share of the cache of keys and values in use, 0 to 1.",
                state["kv_cache_usage"],
            ),
            (
                "vllm:gpu_cache_usage_perc",
                "The former name of vllm:kv_cache_usage_perc.",
                state["kv_cache_usage"],
            ),
            ("trn3:simulated_seconds", "How far the machine is simulated.", self._machine.now),
        ):
            gauge = GaugeMetricFamily(name, help_text, labels=names)
            gauge.add_metric(labels, value)
            yield gauge
        for name, help_text, value in (
            ("vllm:num_preemptions", "Times that a request was put back.", state["preemptions"]),
            ("vllm:prompt_tokens", "Tokens of prompts.", self.prompted),
            ("vllm:generation_tokens", "Tokens of answers.", self.generated),
            (
                "vllm:prefix_cache_queries",
                "Tokens that were looked for in the cache of prefixes.",
                state["prefix_cache_queries"],
            ),
            (
                "vllm:prefix_cache_hits",
                "Tokens that were found in the cache of prefixes.",
                state["prefix_cache_hits"],
            ),
        ):
            counter = CounterMetricFamily(name, help_text, labels=names)
            counter.add_metric(labels, value)
            yield counter
        ended = CounterMetricFamily(
            "vllm:request_success", "Requests that ended.", labels=[*names, "finished_reason"]
        )
        for reason, count in {**self.ended, "abort": self.aborted}.items():
            ended.add_metric([*labels, reason], count)
        yield ended
        for name, help_text, times in (
            ("vllm:time_to_first_token_seconds", "Time to the first token", self.first_token),
            ("vllm:inter_token_latency_seconds", "Time between tokens", self.next_token),
            (
                "vllm:time_per_output_token_seconds",
                "The former name of vllm:inter_token_latency_seconds,",
                self.next_token,
            ),
            ("vllm:e2e_request_latency_seconds", "Time of a whole request", self.request),
        ):
            histogram = HistogramMetricFamily(name, f"{help_text} {_SIMULATED}.", labels=names)
            histogram.add_metric(labels, times.cumulated(), times.sum)
            yield histogram

"""Requests a second that serving under load simulates, beside a plain event simulation.

Simulators of serving (Vidur, LLMServingSim) are no packages of the index. The peer is the same
server, written plainly with SimPy: a process for the replica, a step at a time, one prompt or a
token for all that decode; its steps cost two numbers.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
import simpy

import trn3
from comparison import Comparison, Rival, Work, pace

ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)
SEQUENCES, OUTPUT = 256, 64


def plain(requests: int, rate: float, prompt: float, token: float) -> int:
    """Serve with SimPy, and return how many tokens were made."""
    environment = simpy.Environment()
    waiting: deque[int] = deque()
    made = 0
    arrived = environment.event()

    def arrive() -> Any:
        nonlocal arrived
        draw = random.Random(1)
        for number in range(requests):
            yield environment.timeout(draw.expovariate(rate))
            waiting.append(number)
            if not arrived.triggered:
                arrived.succeed()

    def replica() -> Any:
        nonlocal arrived, made
        running: list[int] = []
        done = 0
        while done < requests:
            if waiting and len(running) < SEQUENCES:
                waiting.popleft()
                yield environment.timeout(prompt)
                running.append(OUTPUT - 1)
                made += 1
            elif running:
                yield environment.timeout(token)
                made += len(running)
                left = [one - 1 for one in running]
                running = [one for one in left if one]
                done += len(left) - len(running)
            else:
                arrived = environment.event()
                yield arrived

    environment.process(arrive())
    environment.process(replica())
    environment.run()
    return made


@ALONE
def bench_requests_served(compare: Comparison, quick: bool) -> None:
    requests = 500 if quick else 20_000

    def ours() -> int:
        served = trn3.serve(
            "llama-3-8b",
            "trn2",
            tp=8,
            rate=100,
            input_tokens=512,
            output_tokens=OUTPUT,
            requests=requests,
            bands=False,
        )
        return served.total_output_tokens

    assert ours() == plain(requests, 100, 0.01, 0.005) == requests * OUTPUT
    compare(
        f"serve, {requests:,} requests of {OUTPUT} tokens",
        ours,
        [
            Rival("SimPy", lambda: plain(requests, 100, 0.01, 0.005)),
            # A million requests in a minute.
            pace(requests, 16_667),
        ],
        Work(requests, "requests"),
    )

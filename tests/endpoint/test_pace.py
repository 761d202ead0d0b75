"""When tokens come, and what happens to those that nobody reads."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import urlsplit

import aiohttp
import pytest

from support.live_machine import FakeLiveServer, Served, serving
from trn3.endpoint import MAX_SPEED

ROUNDING = 1e-3
#: A machine with other work may be so late, in seconds.
LATE = 0.5


async def arrivals(url: str, tokens: int) -> list[float]:
    """Return when each token of an answer came, in seconds after the request."""
    body = {"prompt": "Once", "max_tokens": tokens, "stream": True}
    async with aiohttp.ClientSession() as session:
        began = time.monotonic()
        async with session.post(f"{url}/v1/completions", json=body) as answer:
            return [time.monotonic() - began async for line in answer.content if b"tok" in line]


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_tokens_come_at_the_simulated_times(serve: Callable[..., Served], speed: float) -> None:
    """None before, and none much later; scaled by the speed."""
    step = 0.05
    url = serve(FakeLiveServer(step=step), speed=speed).url
    times = asyncio.run(arrivals(url, 10))
    assert len(times) == 10
    for number, came in enumerate(times, 1):
        assert number * step / speed - ROUNDING <= came < number * step / speed + LATE


def test_at_the_largest_speed_nothing_is_waited_for(serve: Callable[..., Served]) -> None:
    """An hour a token."""
    endpoint = serve(FakeLiveServer(step=3600.0), speed=MAX_SPEED)
    assert max(asyncio.run(arrivals(endpoint.url, 10))) < 5
    assert endpoint.machine.now == 36000


def test_requests_that_come_together_arrive_at_one_time() -> None:
    """At the largest speed time stands still until all that have come are taken."""
    body = json.dumps({"prompt": "Once", "max_tokens": 3})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    with serving(speed="max") as (process, url), ExitStack() as stack:
        where = urlsplit(url)
        # All of them are there when it looks.
        process.send_signal(signal.SIGSTOP)
        clients = [
            stack.enter_context(socket.create_connection((where.hostname, where.port)))
            for _ in range(20)
        ]
        for client in clients:
            client.sendall(f"{head}Connection: close\r\n\r\n{body}".encode())
        process.send_signal(signal.SIGCONT)
        answers = [stack.enter_context(client.makefile("rb")).read() for client in clients]
    documents = [json.loads(answer.partition(b"\r\n\r\n")[2]) for answer in answers]
    assert {document["simulated_seconds"]["arrival"] for document in documents} == {0.0}


def test_tokens_that_are_late_come_at_once(serve: Callable[..., Served]) -> None:
    """A machine that is simulated too slowly is caught up with, and the lateness is told."""

    class SlowServer(FakeLiveServer):
        def advance(self, until: float) -> list[tuple[int, float, int, bool]]:
            time.sleep(0.02)
            return super().advance(until)

    endpoint = serve(SlowServer(step=0.01), speed=100.0)
    times = asyncio.run(arrivals(endpoint.url, 100))
    assert len(times) == 100
    assert len(endpoint.notices) == 1
    assert "late: clients measure that too" in endpoint.notices[0]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_cancels_its_request(
    serve: Callable[..., Served], stream: bool
) -> None:
    endpoint = serve(FakeLiveServer(step=0.01), speed=1.0)
    where = urlsplit(endpoint.url)
    body = json.dumps({"prompt": "Once", "max_tokens": 4000, "stream": stream, "n": 2})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((where.hostname, where.port)) as connection:
        connection.sendall((head + body).encode())
        until(lambda: len(endpoint.machine.running) == 2)
    until(lambda: endpoint.machine.cancelled == [0, 1])
    assert not endpoint.machine.running
    assert 'finished_reason="abort",model_name="fake/model"} 2.0' in metrics(endpoint.url)


def test_a_client_that_reads_nothing_holds_up_itself_alone(serve: Callable[..., Served]) -> None:
    """And is dropped after a while, with what it did not take."""
    endpoint = serve(FakeLiveServer(context=10**7, step=1e-4), stall_seconds=1.0)
    where = urlsplit(endpoint.url)
    body = json.dumps({"prompt": "Once", "max_tokens": 5_000_000, "stream": True})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((where.hostname, where.port))
        connection.sendall((head + body).encode())
        until(lambda: bool(endpoint.machine.running))
        assert len(asyncio.run(arrivals(endpoint.url, 100))) == 100
        until(lambda: not endpoint.machine.running, seconds=30)
        assert endpoint.machine.cancelled == [0]


def until(done: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something is done."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.005)


def metrics(url: str) -> str:
    async def read() -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
            return await answer.text()

    return asyncio.run(read())

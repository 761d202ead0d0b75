"""How an endpoint begins and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from support.live_machine import FakeLiveServer, environment, served, serving
from support.token_files import byte_pairs
from trn3.endpoint import EndpointOptions, run

STREAMS = 500
LONG = {"prompt": "Once", "max_tokens": 4000, "stream": True}


async def open_streams(url: str, count: int, until: asyncio.Event) -> list[str]:
    """Open streams, set the event when each has begun, and return how they ended."""
    begun = 0

    async def read(session: aiohttp.ClientSession) -> str:
        nonlocal begun
        try:
            async with session.post(f"{url}/v1/completions", json=LONG) as answer:
                begun += 1
                if begun == count:
                    until.set()
                await answer.read()
        except aiohttp.ClientError:
            return "cut"
        return "whole"

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        return await asyncio.gather(*(read(session) for _ in range(count)))


async def end_with_open_streams(
    process: subprocess.Popen[str], url: str, number: signal.Signals
) -> float:
    """Send a signal while streams are open, and return after which time the process had ended."""
    begun = asyncio.Event()
    streams = asyncio.create_task(open_streams(url, STREAMS, begun))
    await begun.wait()
    before = time.monotonic()
    process.send_signal(number)
    await asyncio.to_thread(process.wait)
    ended = time.monotonic() - before
    assert await streams == ["cut"] * STREAMS
    return ended


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
)
def test_a_signal_ends_it_within_a_second_and_frees_the_port(
    number: signal.Signals, code: int
) -> None:
    with serving() as (process, url):
        ended = asyncio.run(end_with_open_streams(process, url, number))
        assert process.returncode == code
        assert ended < 1
        assert process.stdout is not None
        assert process.stdout.read() == ""
    port = urlsplit(url).port
    with serving(port=port) as (process, again):
        assert again == url
        process.send_signal(number)
        assert process.wait(5) == code


def test_a_text_that_is_being_counted_holds_up_nothing(tmp_path: Path) -> None:
    """Ten million letters take a tokenizer seconds."""
    with serving(tokenizer=str(byte_pairs(tmp_path))) as (process, url):
        threading.Thread(target=ask_for_long, args=(url,), daemon=True).start()
        time.sleep(1)
        before = time.monotonic()
        process.terminate()
        assert process.wait(10) == 143
        assert time.monotonic() - before < 1


def ask_for_long(url: str) -> None:
    with contextlib.suppress(OSError, HTTPException):
        body = json.dumps({"prompt": "once upon a time " * 600_000}).encode()
        urllib.request.urlopen(f"{url}/v1/completions", body)


def test_ignored_signals_stay_ignored() -> None:
    """As in the background of a script, and under nohup."""
    code = (
        "import signal; from support.live_machine import FakeLiveServer; "
        "from trn3.endpoint import run; "
        "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGHUP)]; "
        "code = run(FakeLiveServer(), announce=lambda line: "
        "[signal.raise_signal(n) for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)]); "
        "raise SystemExit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 143, done.stderr


def test_handlers_of_before_are_there_again() -> None:
    def mine(number: int, frame: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        code = run(
            FakeLiveServer(),
            announce=lambda line: signal.raise_signal(signal.SIGTERM),
            notice=lambda line: None,
        )
        assert code == 143
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_taken_port_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            run(FakeLiveServer(), port=port, notice=lambda line: None)
    assert caught.value.filename == f"127.0.0.1:{port}"


def test_a_host_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match="no-such-host") as caught:
        run(FakeLiveServer(), EndpointOptions(host="no-such-host.invalid"), notice=lambda _: None)
    assert caught.value.filename == "no-such-host.invalid:0"


def test_only_this_machine_is_listened_to() -> None:
    with served() as endpoint:
        assert urlsplit(endpoint.url).hostname == "127.0.0.1"
        assert endpoint.notices == []


def test_whoever_asks_for_all_addresses_is_told() -> None:
    with served(host="0.0.0.0") as endpoint:
        assert endpoint.notices == [
            "whoever reaches 0.0.0.0 may use the endpoint: it asks nobody for a key"
        ]


def test_a_simulation_that_fails_ends_it() -> None:
    machine = FakeLiveServer(fails_at=0.05)

    async def ask(url: str) -> str:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.post(f"{url}/v1/completions", json=LONG) as answer:
                    await answer.read()
            except aiohttp.ClientError:
                return "cut"
        return "whole"

    results: list[str] = []
    threads: list[threading.Thread] = []

    def announce(line: str) -> None:
        url = line.removeprefix("listening on ")
        threads.append(threading.Thread(target=lambda: results.append(asyncio.run(ask(url)))))
        threads[0].start()

    with pytest.raises(RuntimeError, match="the simulation failed: a fake failure"):
        run(machine, announce=announce, notice=lambda line: None)
    threads[0].join()
    assert results == ["cut"]

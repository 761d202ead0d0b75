"""Ten thousand streamed requests at the largest speed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiohttp

from support.live_machine import serving

REQUESTS = 10_000
TOKENS = 4
BODY = {
    "model": "fake/model",
    "prompt": "Once upon a time",
    "max_tokens": TOKENS,
    "stream": True,
    "stream_options": {"include_usage": True},
}


async def ask_all(url: str, numbers: Iterator[int]) -> int:
    """Ask for every number, and return how many answers were whole."""
    whole = 0

    async def ask_some(session: aiohttp.ClientSession) -> None:
        nonlocal whole
        for _ in numbers:
            async with session.post(f"{url}/v1/completions", json=BODY) as answer:
                stream = await answer.read()
            assert answer.status == 200, stream
            *events, empty = stream.split(b"\n\n")
            assert empty == b""
            assert len(events) == TOKENS + 2
            assert events[-1] == b"data: [DONE]"
            assert b'"completion_tokens":4' in events[-2]
            assert all(b'"text":" tok"' in event for event in events[:TOKENS])
            whole += 1

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(ask_some(session) for _ in range(256)))
    return whole


def test_ten_thousand_streams_lose_nothing() -> None:
    with serving(speed="max") as (_, url):
        assert asyncio.run(ask_all(url, iter(range(REQUESTS)))) == REQUESTS

"""What no client should send: every answer says whose fault it is, and the next is served."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings, strategies as st

from support.live_machine import FakeLiveServer, Served, served
from trn3.endpoint.fields import HARMLESS, REFUSED, ChatFields, CompletionFields

COMPLETIONS = "/v1/completions"
CHATS = "/v1/chat/completions"
GOOD = {"prompt": "Once", "max_tokens": 1}


def ask(
    url: str,
    body: bytes | object,
    path: str = COMPLETIONS,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Send a request and return its status, headers and body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=10)
    try:
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def send(url: str, data: bytes, seconds: float = 10) -> bytes:
    """Send bytes and return all that comes until the connection ends."""
    where = urlsplit(url)
    received = b""
    with socket.create_connection((where.hostname, where.port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            while chunk := connection.recv(2**16):
                received += chunk
        except ConnectionError:
            pass
    return received


def assert_serves(url: str) -> None:
    assert ask(url, GOOD)[0] == 200


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """Return an endpoint that no test may bring down."""
    with served(FakeLiveServer(context=64)) as made:
        yield made


def error_of(body: bytes) -> dict[str, object]:
    error: dict[str, object] = json.loads(body)["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    assert error["message"]
    return error


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["fake/model", "user", "text", " tok"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    [*CompletionFields.__struct_fields__, *ChatFields.__struct_fields__, *REFUSED, *HARMLESS]
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.just("user") | anything},
        optional={"content": st.text() | anything, "tool_calls": anything},
    ),
    max_size=3,
)
prompts = st.text() | st.lists(st.text() | st.integers(-1, 2**33) | st.lists(st.integers(0, 9)))


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
@given(
    fields=st.dictionaries(names | st.text(), anything, max_size=6),
    proper=st.fixed_dictionaries({}, optional={"prompt": prompts, "messages": messages}),
)
def test_objects_of_any_fields_are_served_or_refused(
    shared: Served, path: str, fields: dict[str, object], proper: dict[str, object]
) -> None:
    """No body makes an error of ours."""
    status, _, body = ask(shared.url, json.dumps({**fields, **proper}).encode(), path)
    assert status in (200, 400, 404)
    if status != 200:
        error_of(body)
    assert_serves(shared.url)


@given(body=st.binary(max_size=200))
def test_bodies_of_any_bytes_are_refused(shared: Served, body: bytes) -> None:
    status, _, answer = ask(shared.url, body)
    assert status == 400
    error_of(answer)


@given(data=st.binary(max_size=300), start=st.sampled_from([b"", b"POST /v1/completions HTTP/1.1"]))
@settings(max_examples=30)
def test_connections_of_any_bytes_harm_nobody(shared: Served, data: bytes, start: bytes) -> None:
    answer = b""
    # Bytes that may be the beginning of a request are waited for.
    with suppress(TimeoutError):
        answer = send(shared.url, start + data + b"\r\n\r\n\r\n", seconds=0.05) if data else b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert_serves(shared.url)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"[" * 100_000,
        b'{"prompt":' * 5000,
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "\\udc00x", "max_tokens": 1}',
        b'{"prompt": "\xff"}',
        b'{"prompt": "x", "max_tokens": NaN}',
        b'{"prompt": "x", "max_tokens": 1e400}',
        b'{"prompt": "x", "max_tokens": ' + b"9" * 5000 + b"}",
        b'{"prompt": "x", "temperature": ' + b"9" * 5000 + b"}",
    ],
)
def test_broken_json_is_refused(shared: Served, body: bytes) -> None:
    status, _, answer = ask(shared.url, body)
    assert status == 400
    error_of(answer)
    assert_serves(shared.url)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/models/another", 404),
        ("GET", "/v1/completions/../models%00", 404),
        ("GET", COMPLETIONS, 405),
        ("DELETE", CHATS, 405),
        ("POST", "/health", 405),
        ("OPTIONS", COMPLETIONS, 405),
        ("PUT", "/metrics", 405),
    ],
)
def test_other_paths_and_methods_are_refused(
    shared: Served, method: str, path: str, status: int
) -> None:
    found, headers, body = ask(shared.url, GOOD, path, method)
    assert found == status
    error_of(body)
    assert ("Allow" in headers) == (status == 405)


def test_head_is_get_without_the_body(shared: Served) -> None:
    status, _, body = ask(shared.url, b"", "/health", "HEAD")
    assert (status, body) == (200, b"")


def test_a_large_body_is_refused_before_it_comes(serve: Callable[..., Served]) -> None:
    endpoint = serve(body_bytes=1000)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
    answer = send(endpoint.url, head + b"x" * 10)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert error_of(answer.partition(b"\r\n\r\n")[2])["message"]
    status, _, _ = ask(endpoint.url, {"prompt": "x" * 2000})
    assert status == 413
    assert_serves(endpoint.url)


def test_a_body_that_grows_is_refused_when_it_is_too_large(serve: Callable[..., Served]) -> None:
    """Sent in chunks, it does not say its size; compressed, another one."""
    endpoint = serve(body_bytes=1000)
    chunked = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"190\r\n" + b"x" * 400 + b"\r\n"
    assert send(endpoint.url, chunked + piece * 4).startswith(b"HTTP/1.1 413 ")
    bomb = gzip.compress(json.dumps({"prompt": "x" * 10_000_000}).encode())
    status, _, _ = ask(endpoint.url, bomb[:900], headers={"Content-Encoding": "gzip"})
    assert status == 413
    status, _, _ = ask(endpoint.url, b"no gzip", headers={"Content-Encoding": "gzip"})
    assert status == 400
    small = gzip.compress(json.dumps(GOOD).encode())
    status, _, _ = ask(endpoint.url, small, headers={"Content-Encoding": "gzip"})
    assert status == 200


def test_a_slow_body_is_not_waited_for(serve: Callable[..., Served]) -> None:
    endpoint = serve(body_seconds=0.2)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    began = time.monotonic()
    assert send(endpoint.url, head).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < 5
    assert_serves(endpoint.url)


@pytest.mark.parametrize("start", [b"", b"GET", b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_slow_headers_are_not_waited_for(serve: Callable[..., Served], start: bytes) -> None:
    endpoint = serve(idle_seconds=0.2)
    began = time.monotonic()
    assert send(endpoint.url, start) == b""
    assert 0.1 < time.monotonic() - began < 5
    assert_serves(endpoint.url)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"X: x\r\n" * 5000 + b"\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nBroken\x00: x\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_refused(shared: Served, data: bytes) -> None:
    answer = send(shared.url, data)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), answer
    assert_serves(shared.url)


def test_nothing_of_all_this_is_told(shared: Served) -> None:
    """What clients do wrong is theirs to know."""
    assert not [line for line in shared.notices if "unknown field" not in line]


def test_a_full_queue_says_when_to_come_again(serve: Callable[..., Served]) -> None:
    """And takes all answers of a request, or none."""
    machine = FakeLiveServer(queue=3)
    endpoint = serve(machine)
    status, headers, body = ask(endpoint.url, {**GOOD, "n": 4})
    assert status == 429
    assert headers["Retry-After"] == "1"
    assert error_of(body)["code"] == "queue_full"
    assert machine.cancelled == [0, 1, 2]
    assert not machine.waiting
    assert ask(endpoint.url, {**GOOD, "n": 3})[0] == 200


def test_an_endpoint_bounds_what_is_open_itself(serve: Callable[..., Served]) -> None:
    """Though the machine takes all that comes."""
    endpoint = serve(queue=3)
    status, headers, body = ask(endpoint.url, {**GOOD, "prompt": ["one", "two"], "n": 2})
    assert (status, headers["Retry-After"]) == (429, "1")
    assert error_of(body)["message"] == "0 answers are open; allowed: 3"
    assert not endpoint.machine.asked
    assert ask(endpoint.url, {**GOOD, "n": 3})[0] == 200


def test_what_the_machine_can_never_serve_is_refused(serve: Callable[..., Served]) -> None:
    class NarrowServer(FakeLiveServer):
        def submit(self, *_: object) -> int:
            raise ValueError("the cache holds 3 tokens")

    status, _, body = ask(serve(NarrowServer()).url, GOOD)
    assert status == 400
    assert error_of(body)["message"] == "the cache holds 3 tokens"


def test_one_connection_too_many_is_turned_away(serve: Callable[..., Served]) -> None:
    endpoint = serve(connections=2)
    where = urlsplit(endpoint.url)
    held = [socket.create_connection((where.hostname, where.port)) for _ in range(2)]
    time.sleep(0.1)
    answer = send(endpoint.url, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 503 ")
    for each in held:
        each.close()
    time.sleep(0.1)
    assert_serves(endpoint.url)

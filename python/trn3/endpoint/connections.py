"""Connections: how many, what is read from them, and how streams are written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from trn3.endpoint.errors import RefusedQuestionError, busy, refuse
from trn3.endpoint.pace import LiveAnswer
from trn3.endpoint.wire import Wire

#: Bodies of the largest size that may be on their way at a time.
_BODIES: Final = 16
_STREAM: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class BoundedServer(web.Server):
    """Speaks HTTP on so many connections at a time, and turns others away.

    Parameters
    ----------
    handler
        Answers a request.
    most
        Connections.
    options
        Those of `aiohttp.web.Server`.
    """

    def __init__(
        self, handler: Callable[[web.BaseRequest], Any], most: int, **options: Any
    ) -> None:
        super().__init__(handler, **options)
        self._most = most
        self._open = 0

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection; one too many is told so, and closed."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._open > self._most:
            transport.write(_FULL)
            transport.close()

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Count it no more."""
        super().connection_lost(handler, exc)
        self._open -= 1

    def abort(self) -> None:
        """Drop all connections, whatever they were promised."""
        for connection in self.connections:
            if connection.transport is not None:
                connection.transport.abort()


class BodyReader:
    """Reads the bodies of requests, none larger or slower than it should be.

    Parameters
    ----------
    most
        Bytes of a body.
    seconds
        In which it must have come.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._held = 0

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request.

        Raises
        ------
        RefusedQuestionError
            If it is too large, too slow or broken, or others fill the memory for it.
        """
        body = bytearray()
        try:
            self._check(request.content_length or 0)
            async with asyncio.timeout(self._seconds):
                while chunk := await request.content.readany():
                    body += chunk
                    self._held += len(chunk)
                    self._check(len(body))
        except TimeoutError as error:
            message = f"the body did not come in {self._seconds:g} s"
            raise RefusedQuestionError(HTTPStatus.REQUEST_TIMEOUT, message) from error
        except (web.RequestPayloadError, HttpProcessingError) as error:
            refuse(f"the body cannot be read: {error}")
        finally:
            self._held -= len(body)
        return bytes(body)

    def _check(self, size: int) -> None:
        if size > self._most:
            message = f"the body has {size} bytes or more; allowed: {self._most}"
            raise RefusedQuestionError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        if self._held > _BODIES * self._most:
            raise busy("too many large bodies come at a time")


async def send_stream(
    request: web.BaseRequest, answer: LiveAnswer, wire: Wire
) -> web.StreamResponse:
    """Send an answer as it comes; a slow client holds up itself alone."""
    response = web.StreamResponse(headers=_STREAM)
    await response.prepare(request)
    while True:
        events = wire.events(await answer.take())
        if not answer.open:
            await response.write_eof(events + wire.end())
            return response
        await response.write(events)


def connection_logger(notice: Callable[[str], object]) -> logging.Logger:
    """Return what aiohttp writes its log to: errors of ours are told, those of clients are not."""
    logger = logging.Logger("trn3.endpoint", logging.ERROR)  # noqa: LOG001 - one of each endpoint
    logger.addHandler(_NoticeHandler(notice))
    return logger


class _NoticeHandler(logging.Handler):
    def __init__(self, notice: Callable[[str], object]) -> None:
        super().__init__()
        self._notice = notice

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            self._notice(f"internal error: {record.getMessage()}: {error!r}")

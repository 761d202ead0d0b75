"""The endpoint itself: routes and answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, Self

import msgspec
from aiohttp import web

import trn3
from trn3.endpoint.connections import BodyReader, BoundedServer, connection_logger, send_stream
from trn3.endpoint.errors import RefusedQuestionError, busy
from trn3.endpoint.live_server import LiveServerProtocol
from trn3.endpoint.metrics import CONTENT_TYPE, Metrics
from trn3.endpoint.options import MAX_SPEED, EndpointOptions
from trn3.endpoint.pace import Pace
from trn3.endpoint.questions import Question, Questioner, unknown_model
from trn3.endpoint.sockets import allowed_connections, listen
from trn3.endpoint.tokens import token_counter
from trn3.endpoint.wire import Wire
from trn3.text import printable

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_MODELS: Final = "/v1/models"


class Endpoint:
    """An OpenAI-compatible endpoint that answers with placeholders at a simulated machine's pace.

    It listens while its context lasts.

    Parameters
    ----------
    machine
        The machine behind it.
    options
        Where it listens, how fast time runs, and what it bears.
    notice
        Takes lines for the person who started it.

    Raises
    ------
    ValueError, OSError, ImportError
        If the tokenizer of the options cannot be used.
    """

    def __init__(
        self,
        machine: LiveServerProtocol,
        options: EndpointOptions,
        notice: Callable[[str], object],
    ) -> None:
        self._machine = machine
        self._options = options
        self._notice = notice
        self._names = (machine.model, *options.names)
        self._tokens = token_counter(options.tokenizer)
        self._metrics = Metrics(machine)
        self._bodies = BodyReader(options.body_bytes, options.body_seconds)
        self._created = int(time.time())
        self._answers = 0
        self._routes: dict[str, dict[str, Handler]] = {
            "/health": {"GET": self._health},
            "/version": {"GET": self._version},
            "/metrics": {"GET": self._show_metrics},
            _MODELS: {"GET": self._models},
            "/v1/completions": {"POST": self._complete},
            "/v1/chat/completions": {"POST": self._chat},
        }

    async def __aenter__(self) -> Self:
        """Listen.

        Raises
        ------
        OSError
            If the address cannot be used.
        """
        options = self._options
        listening = listen(options)
        loop = asyncio.get_running_loop()
        self._failure: asyncio.Future[Exception] = loop.create_future()
        self._pace = Pace(
            self._machine, options.speed, options.queue, self._metrics, self._notice, self._fail
        )
        self._questioner = Questioner(
            self._names, self._machine.longest_context, self._tokens, options, self._notice
        )
        allowed = allowed_connections(options.connections)
        if allowed < options.connections:
            self._notice(f"{allowed} connections at a time, as no more files may be open")
        self._connections = BoundedServer(
            self._handle,
            allowed,
            handler_cancellation=True,
            access_log=None,
            logger=connection_logger(self._notice),
            keepalive_timeout=options.idle_seconds,
            lingering_time=2.0,
        )
        self._server = await loop.create_server(
            self._connections, sock=listening, backlog=options.connections
        )
        host, port = listening.getsockname()[:2]
        if not ip_address(host).is_loopback:
            self._notice(f"whoever reaches {host} may use the endpoint: it asks nobody for a key")
        #: Where it is.
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and drop what is open."""
        self._server.close()
        self._pace.close()
        self._connections.abort()
        # Connections learn of it in the next turn, and their handlers in those after.
        for _turn in range(3):
            await asyncio.sleep(0)

    @property
    def token_description(self) -> str:
        """How tokens of texts are counted."""
        return self._tokens.description

    async def wait(self) -> None:
        """Wait for what never comes, unless the simulation fails.

        Raises
        ------
        RuntimeError
            If it does.
        """
        error = await self._failure
        message = f"the simulation failed: {error}"
        raise RuntimeError(message) from error

    def _fail(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._handler(request)(request)
        except RefusedQuestionError as refusal:
            return refusal.response()
        except ConnectionError:
            raise
        except Exception as error:  # the endpoint goes on, and this client is told
            self._notice(f"internal error: {type(error).__name__}: {error}")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            return RefusedQuestionError(status, "internal error").response()

    def _handler(self, request: web.BaseRequest) -> Handler:
        path = request.path
        methods = self._routes.get(path)
        if methods is None and path.startswith(f"{_MODELS}/"):
            methods = {"GET": self._model}
        if methods is None:
            message = f"there is no {printable(path)}"
            raise RefusedQuestionError(HTTPStatus.NOT_FOUND, message, code="unknown_url")
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = ", ".join(methods)
            message = f"{printable(request.method)} is not allowed; allowed: {allowed}"
            status = HTTPStatus.METHOD_NOT_ALLOWED
            raise RefusedQuestionError(status, message, headers={"Allow": allowed})
        return handler

    async def _health(self, _: web.BaseRequest) -> web.Response:
        return web.Response()

    async def _version(self, _: web.BaseRequest) -> web.Response:
        return _json({"version": trn3.__version__})

    async def _show_metrics(self, _: web.BaseRequest) -> web.Response:
        return web.Response(body=self._metrics.document(), headers={"Content-Type": CONTENT_TYPE})

    async def _models(self, _: web.BaseRequest) -> web.Response:
        return _json({"object": "list", "data": list(map(self._described, self._names))})

    async def _model(self, request: web.BaseRequest) -> web.Response:
        name = request.path.removeprefix(f"{_MODELS}/")
        if name not in self._names:
            raise unknown_model(name, self._names)
        return _json(self._described(name))

    def _described(self, name: str) -> dict[str, Any]:
        speed = self._options.speed
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "trn3",
            "root": self._machine.model,
            "parent": None,
            "max_model_len": self._machine.longest_context,
            "simulated": {
                "speed": "max" if speed == MAX_SPEED else speed,
                "tokens": self._tokens.description,
                "placeholder": self._tokens.word,
            },
        }

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self._bodies.read(request)
        return await self._answer(request, await self._questioner.completion(body))

    async def _chat(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self._bodies.read(request)
        return await self._answer(request, await self._questioner.chat(body))

    async def _answer(self, request: web.BaseRequest, question: Question) -> web.StreamResponse:
        try:
            answer = self._pace.ask(question)
        except OverflowError as error:
            raise busy(str(error), "queue_full") from error
        except ValueError as error:
            raise RefusedQuestionError(HTTPStatus.BAD_REQUEST, str(error)) from error
        self._answers += 1
        wire = Wire(answer, self._answers, int(time.time()), self._tokens.word)
        try:
            if question.is_streamed:
                return await send_stream(request, answer, wire)
            while answer.open:
                await answer.take()
            return web.Response(body=wire.document(), content_type="application/json")
        finally:
            self._pace.drop(answer)


def _json(document: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")

"""Requests that are refused, as OpenAI's interface says so."""

from __future__ import annotations

from http import HTTPStatus
from typing import NoReturn

import msgspec
from aiohttp import web


class RefusedQuestionError(Exception):
    """A request is refused: with which status, why, and what of it is meant.

    Parameters
    ----------
    status
        The status of the answer.
    message
        Why, for people.
    param
        The field that is wrong.
    code
        What programs may look at.
    headers
        Further headers.
    """

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers

    def response(self) -> web.Response:
        """Return the answer: the object ``error`` of OpenAI's interface."""
        error = {
            "message": str(self),
            "type": _TYPES.get(self.status, "invalid_request_error"),
            "param": self.param,
            "code": self.code,
        }
        return web.Response(
            status=self.status,
            body=msgspec.json.encode({"error": error}),
            content_type="application/json",
            headers=self.headers,
        )


def refuse(message: str, param: str | None = None, code: str | None = None) -> NoReturn:
    """Refuse a request that is wrong itself.

    Raises
    ------
    RefusedQuestionError
        Always, with the status 400.
    """
    raise RefusedQuestionError(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def busy(message: str, code: str | None = None) -> RefusedQuestionError:
    """Return the refusal of a request that may come again in a second."""
    return RefusedQuestionError(
        HTTPStatus.TOO_MANY_REQUESTS, message, code=code, headers={"Retry-After": "1"}
    )


_TYPES = {
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.INTERNAL_SERVER_ERROR: "server_error",
}

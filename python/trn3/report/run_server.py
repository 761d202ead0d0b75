"""A folder of runs as pages for a browser on this machine, and for nobody else."""

from __future__ import annotations

import os
import secrets
import shutil
import socketserver
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import BinaryIO, Final
from urllib.parse import unquote_to_bytes

from trn3.report.run_pages import compare_page, list_page
from trn3.report.saved_runs import FILES, RunFolder
from trn3.report.shell import ReportPage

HOST: Final = "127.0.0.1"
#: Names of this machine in a request; others are pages elsewhere that had theirs lead here.
HOST_NAMES: Final = (HOST, "localhost")
# A file that somebody put into the folder acts for itself alone, and loads nothing.
_SANDBOX: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


class RunServer(socketserver.ThreadingTCPServer):
    """Serves the runs below a folder on 127.0.0.1, to those who know `url`.

    ``serve_forever`` serves until something is raised in the thread that called it.

    Parameters
    ----------
    folder
        What is served.
    port
        Where; 0 takes any that is free.

    Raises
    ------
    OSError
        If the port is taken.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, RunServer(RunFolder(folder)) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, folder: RunFolder, port: int = 0) -> None:
        self.folder = folder
        self.token = secrets.token_urlsafe(24)
        super().__init__((HOST, port), RunHandler)

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where the list of runs is; its secret part is new each time."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of readers who went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class RequestError(Exception):
    """A request that is refused, and how."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class RunHandler(BaseHTTPRequestHandler):
    """Answers one request of a `RunServer`."""

    server: RunServer
    server_version = "trn3"
    sys_version = ""
    # A connection that says nothing is not waited for any longer, in seconds.
    timeout = 30

    def parse_request(self) -> bool:
        """Refuse all but reading, whatever else a request says."""
        if not super().parse_request():
            return False
        if self.command in ("GET", "HEAD"):
            return True
        self._refuse(RequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"{self.command} is not allowed"))
        return False

    def do_GET(self) -> None:
        """Answer with a page or a file."""
        try:
            steps, query = self._request()
            if steps == [""]:
                self._send_page(list_page(self.server.folder.root.name, self.server.folder.runs()))
            elif steps == ["compare"]:
                self._send_page(self._compared(query))
            elif len(steps) > 1 and steps[0] == "run":
                self._send_file(steps[1:-1], steps[-1])
            else:
                raise RequestError(HTTPStatus.NOT_FOUND, "there is no such page")
        except RequestError as error:
            self._refuse(error)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the content."""
        self.do_GET()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its base's name
        """Say nothing: what a browser asks for has the token in it."""

    def _request(self) -> tuple[list[str], str]:
        """Return the steps of the path behind the token, decoded once, and the query."""
        hosts = self.headers.get_all("Host") or []
        allowed = [f"{name}:{self.server.port}" for name in HOST_NAMES]
        if len(hosts) != 1 or hosts[0].lower() not in allowed:
            message = f"Host must be {' or '.join(allowed)}"
            raise RequestError(HTTPStatus.FORBIDDEN, message)
        path, _, query = self.path.partition("?")
        empty, _, rest = path.partition("/")
        token, slash, rest = rest.partition("/")
        given = token.encode("utf-8", "surrogateescape")
        if empty or not secrets.compare_digest(given, self.server.token.encode()):
            message = "the address lacks its token; open the one that `trn3 view` printed"
            raise RequestError(HTTPStatus.FORBIDDEN, message)
        if not slash:
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such page")
        return [os.fsdecode(unquote_to_bytes(step)) for step in rest.split("/")], query

    def _compared(self, query: str) -> ReportPage:
        chosen = [
            os.fsdecode(unquote_to_bytes(value.replace("+", " ")))
            for name, _, value in (each.partition("=") for each in query.split("&"))
            if name == "run"
        ]
        # Values are places as they stand in URLs, which a form encodes once more.
        places = [os.fsdecode(unquote_to_bytes(place)) for place in chosen]
        known = {run.place: run for run in self.server.folder.runs()}
        if any(place not in known for place in places):
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such run")
        try:
            return compare_page([known[place] for place in dict.fromkeys(places)])
        except ValueError as error:
            raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from error

    def _send_page(self, page: ReportPage) -> None:
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page.policy, page.html().encode())

    def _send_file(self, steps: list[str], name: str) -> None:
        if name not in FILES or any("/" in step for step in steps):
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such file")
        try:
            file = self.server.folder.open("/".join(steps), name)
        except (OSError, ValueError) as error:
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such file") from error
        with file:
            self._send(HTTPStatus.OK, FILES[name], _SANDBOX, file)

    def _refuse(self, error: RequestError) -> None:
        text = f"{error.status.value} {error.status.phrase}: {error}\n".encode()
        self._send(error.status, "text/plain; charset=utf-8", _SANDBOX, text)

    def _send(self, status: HTTPStatus, kind: str, policy: str, content: bytes | BinaryIO) -> None:
        length = len(content) if isinstance(content, bytes) else os.fstat(content.fileno()).st_size
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(length)),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(content, bytes):
            self.wfile.write(content)
        else:
            shutil.copyfileobj(content, self.wfile)

"""`jatpo serve`: a page on this machine alone, to step through episodes and to play the ad hoc agent by hand.

It answers on the loopback address only, and only to requests whose Host is that address, so that no other site reaches
it through a browser. Nothing is loaded from elsewhere (content security policy), and no text of a user is markup.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jatpo.errors import JatpoError
from jatpo.plain import to_json
from jatpo.report import local_page

ADDRESS = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
LARGEST = 10_000  # bytes of a request
PATIENCE = 60.0  # seconds that a request may take to arrive
Fields = Mapping[str, str]
Answer = tuple[HTTPStatus, str, bytes]


class LocalServer(ThreadingHTTPServer):
    """Serves what `show` (the page of an episode) and `games` (episodes by hand) give; one request works at a time."""

    daemon_threads = True

    def __init__(self, port: int, names: list[str], agents: list[str], show: Callable[..., str], games: Any):
        """`port` 0 takes a free one."""
        super().__init__((ADDRESS, port), Handler)
        self.names, self.agents, self.show, self.games = names, agents, show, games
        self.busy = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a browser that goes away; report a defect as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    @property
    def hosts(self) -> set[str]:
        """The values of Host that are answered."""
        return {f"{name}:{self.server_address[1]}" for name in (ADDRESS, "localhost")}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: LocalServer
    timeout = PATIENCE
    server_version, sys_version, protocol_version = "jatpo", "", "HTTP/1.1"

    def do_GET(self) -> None:
        """Pages and their assets."""
        parts = urlsplit(self.path)
        fields = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        pages: Mapping[str, Callable[[], Answer]] = {
            "/": partial(self._page, local_page.start, self.server.names, self.server.agents),
            "/watch": partial(self._watch, fields),
            "/play": partial(self._page, local_page.play, fields, self.server.names),
        }
        asset = local_page.ASSETS.get(parts.path)
        if asset is not None:
            self._answer(lambda: (HTTPStatus.OK, asset, local_page.asset(parts.path).encode()))
        else:
            self._answer(pages.get(parts.path, self._missing))

    def do_POST(self) -> None:
        """Moves of an episode by hand."""
        steps = {"/play/new": self.server.games.new, "/play/act": self.server.games.act}
        step = steps.get(urlsplit(self.path).path)
        self._answer(self._missing if step is None else partial(self._step, step))

    def _answer(self, make: Callable[[], Answer]) -> None:
        """Check the request, make the answer, send it; an error that a user can fix is a page or a message."""
        if self.headers.get("Host") not in self.server.hosts:
            self.close_connection = True
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"unknown host\n")
            return
        try:
            answer = make()
        except (JatpoError, OSError) as error:
            if isinstance(error, ConnectionError):
                raise
            text = str(error) if isinstance(error, JatpoError) else f"the system refused: {error}"
            posted = self.command == "POST"
            body = json.dumps(to_json({"error": text})) if posted else local_page.failure(text)
            answer = HTTPStatus.BAD_REQUEST, "application/json" if posted else "text/html", body.encode()
        self._send(*answer)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _page(self, make: Callable[..., str], *values: Any) -> Answer:
        return HTTPStatus.OK, "text/html", make(*values).encode()

    def _watch(self, fields: Fields) -> Answer:
        with self.server.busy:
            return self._page(self.server.show, fields)

    def _step(self, step: Callable[[Mapping[str, Any]], Any]) -> Answer:
        """The JSON that a move of a game gives; other sites cannot send it without asking the browser first."""
        origin, kind = self.headers.get("Origin"), self.headers.get("Content-Type", "")
        if kind.split(";")[0].strip() != "application/json" or origin not in {
            None,
            *(f"http://{host}" for host in self.server.hosts),
        }:
            self.close_connection = True
            return HTTPStatus.FORBIDDEN, "text/plain", b"not from this page\n"
        try:
            size = int(self.headers.get("Content-Length", ""))
            if not 0 <= size <= LARGEST:
                raise ValueError
            fields = json.loads(self.rfile.read(size))
            if not isinstance(fields, dict):
                raise ValueError
        except ValueError:
            self.close_connection = True
            return HTTPStatus.BAD_REQUEST, "text/plain", b"not JSON\n"
        with self.server.busy:
            return HTTPStatus.OK, "application/json", json.dumps(to_json(step(fields))).encode()

    def _missing(self) -> Answer:
        return HTTPStatus.NOT_FOUND, "text/html", local_page.failure("there is no such page here").encode()

    def log_message(self, format: str, *values: Any) -> None:
        """Requests are not logged."""

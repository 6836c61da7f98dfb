"""The server of a web app, after WebArena-Infinity: the app's files, its state, a reset, and events."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from ..resources import resource

APPS = Path(str(resource("data", "web", "apps")))
"""The folder of the apps that ship."""
SHARED = "shared"
"""The folder of files that all apps that ship use, and the path under which they are served."""
MOST_BYTES = 8 * 2**20
"""Of a state that is put."""
HEARTBEAT_S = 10.0
"""Between two signs of life to a browser that listens for events."""
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
"""What is served: no other file, so no source and no verifier."""
_POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; form-action 'self'; frame-ancestors 'none'"


def app_names() -> list[str]:
    """Return the names of the apps that ship."""
    return sorted(folder.name for folder in APPS.iterdir() if folder.is_dir() and folder.name != SHARED)


class AppServer:
    """Serves one app on the loopback interface, in threads of its own, until it is closed."""

    def __init__(self, app: str | Path, *, state: Mapping[str, Any] | None = None, port: int = 0) -> None:
        """``app`` is the name of an app that ships, or a folder; port 0 is any that is free.

        Without a state, the first that a browser puts is the initial one. Raises FileNotFoundError, OSError.
        """
        folder = APPS / app if app in app_names() else Path(app)
        self._folders = {"": folder.resolve(), SHARED: (APPS / SHARED).resolve()}
        if not (folder / "index.html").is_file():
            known = ", ".join(app_names())
            raise FileNotFoundError(f"{app}: no such app, nor a folder with index.html; there are {known}")
        self._lock = threading.Lock()
        self._listeners: list[queue.SimpleQueue[str]] = []
        self._initial = self._state = None if state is None else _text(state)
        self._closed = False
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.app = self
        # the usual poll of half a second is what closing would wait
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> Any:
        """A copy of the state as it is now; None before there is one."""
        with self._lock:
            return None if self._state is None else json.loads(self._state)

    def begin(self, state: Mapping[str, Any]) -> None:
        """Set the state, also as the one to which a reset goes back; browsers read it anew."""
        with self._lock:
            self._initial = _text(state)
        self.reset()

    def set(self, text: bytes) -> None:
        """Set the state as JSON; the first one is the initial one too."""
        with self._lock:
            self._state = text
            if self._initial is None:
                self._initial = text

    def reset(self) -> bool:
        """Go back to the initial state, and tell whether there is one."""
        with self._lock:
            self._state = self._initial
            is_there = self._initial is not None
        self._tell("reset")
        return is_there

    def close(self) -> None:
        """Stop serving."""
        if not self._closed:
            self._closed = True
            self._tell("")
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def text(self) -> bytes | None:
        """Return the state as JSON."""
        with self._lock:
            return self._state

    def file(self, path: str) -> tuple[bytes, str] | None:
        """Return a file of the app and its kind; None where there is none, or none that is served."""
        first, _, rest = path.lstrip("/").partition("/")
        folder, name = (self._folders[first], rest) if first == SHARED else (self._folders[""], path.lstrip("/"))
        with suppress(ValueError, OSError):  # a name with a zero byte, or too long
            file = (folder / (name or "index.html")).resolve()
            if file.is_relative_to(folder) and file.suffix in _KINDS and file.is_file():
                return file.read_bytes(), _KINDS[file.suffix]
        return None

    def listen(self) -> queue.SimpleQueue[str]:
        """Return where events come in; an empty one is the end."""
        events: queue.SimpleQueue[str] = queue.SimpleQueue()
        with self._lock:
            self._listeners.append(events)
            if self._closed:
                events.put("")
        return events

    def leave(self, events: queue.SimpleQueue[str]) -> None:
        """Send no more events."""
        with self._lock:
            self._listeners.remove(events)

    @property
    def listeners(self) -> int:
        """How many browsers listen for events."""
        with self._lock:
            return len(self._listeners)

    def _tell(self, event: str) -> None:
        with self._lock:
            for events in self._listeners:
                events.put(event)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    """A browser that listens would hold the closing up."""
    request_queue_size = 64
    app: AppServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    """Seconds that a request may be silent."""

    def do_GET(self) -> None:
        """Answer with the state, events, or a file."""
        path = urlsplit(self.path).path
        if not self._is_ours():
            return
        if path == "/api/state" and self.headers.get("Sec-Fetch-Dest") == "document":
            self._answer(HTTPStatus.NOT_FOUND, {"error": "the state is no page"})
        elif path == "/api/state":
            text = self.server.app.text()
            if text is None:
                self._answer(HTTPStatus.NOT_FOUND, {"error": "there is no state yet: open the app in a browser"})
            else:
                self._send(HTTPStatus.OK, text, "application/json")
        elif path == "/api/events":
            self._stream()
        elif (file := self.server.app.file(unquote(path))) is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there is no such file"})
        else:
            self._send(HTTPStatus.OK, *file)

    def do_PUT(self) -> None:
        """Set the state."""
        body = self._body()
        if body is None or not self._is_ours():
            return
        if urlsplit(self.path).path != "/api/state":
            self._answer(HTTPStatus.NOT_FOUND, {"error": "put /api/state"})
            return
        try:
            state = json.loads(body, parse_constant=_refuse)
            text = _text(state)
        except (ValueError, RecursionError) as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": f"the state is not JSON: {error}"})
            return
        if not isinstance(state, dict):
            self._answer(HTTPStatus.BAD_REQUEST, {"error": "the state has to be an object"})
            return
        self.server.app.set(text)
        self._answer(HTTPStatus.OK, {"status": "ok"})

    def do_POST(self) -> None:
        """Go back to the initial state."""
        body = self._body()
        if body is None or not self._is_ours():
            return
        if urlsplit(self.path).path != "/api/reset":
            self._answer(HTTPStatus.NOT_FOUND, {"error": "post /api/reset"})
            return
        restored = self.server.app.reset()
        self._answer(HTTPStatus.OK, {"status": "ok", "seed_restored": restored})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: an episode has hundreds of requests."""

    def _is_ours(self) -> bool:
        """Refuse what a page of another origin asks for."""
        own = {f"127.0.0.1:{self.server.app.port}", f"localhost:{self.server.app.port}"}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") in own and (origin is None or urlsplit(origin).netloc in own):
            return True
        self._answer(HTTPStatus.FORBIDDEN, {"error": "another origin's pages have nothing to ask here"})
        return False

    def _body(self) -> bytes | None:
        """Return what was sent; None where it is refused, and was answered so."""
        length = self.headers.get("Content-Length", "0")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "say the Content-Length in bytes")
        elif int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES:,} bytes")
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
            self.close_connection = True
        return None

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answer without reading what was sent, after which nothing can be read any more."""
        self.close_connection = True
        self._answer(status, {"error": problem})

    def _stream(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        app = self.server.app
        events = app.listen()
        line = "data: connected\n\n"
        try:
            while True:
                self.wfile.write(line.encode())
                self.wfile.flush()
                try:
                    event = events.get(timeout=HEARTBEAT_S)
                except queue.Empty:
                    line = ": still here\n\n"
                    continue
                if not event:
                    return
                line = f"data: {event}\n\n"
        except OSError:  # the browser has gone
            return
        finally:
            app.leave(events)

    def _answer(self, status: HTTPStatus, value: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _text(state: Any) -> bytes:
    return json.dumps(state, ensure_ascii=True, separators=(",", ":")).encode()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")

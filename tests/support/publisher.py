"""A publisher of files on this machine, who answers as tests say."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Publisher:
    """A local server that answers each path as a function of the request's handler."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: Counter[str] = Counter()
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked[self.path] += 1
                self.close_connection = True
                with contextlib.suppress(ConnectionError):  # the reader has gone
                    publisher.answers[self.path](self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        serve = self.server.serve_forever
        self.thread = threading.Thread(target=serve, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def sends(
    content: bytes, *headers: tuple[str, str], code: int = 200, length: int | None = None
) -> Callable:
    """An answer of this content."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for header in (
            ("Content-Length", str(len(content) if length is None else length)),
            *headers,
        ):
            request.send_header(*header)
        request.end_headers()
        request.wfile.write(content)

    return answer

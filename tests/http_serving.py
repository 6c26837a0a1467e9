"""A small HTTP server in a thread of this process, for as long as a block runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # of connections that wait to be accepted: hundreds of clients may come together


@contextmanager
def serving_http(handler: type[BaseHTTPRequestHandler], **options: Any) -> Iterator[str]:
    """Serve at a free port of this machine without a word, and give the URL; the handler gets the options."""

    class Quiet(handler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with _Server(("127.0.0.1", 0), partial(Quiet, **options)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def never_done() -> Iterator[tuple[str, threading.Event]]:
    """Give the URL of a server that sends a few bytes of an answer again and again, and whether its client has gone."""
    gone = threading.Event()

    class Unfinished(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    gone.wait(0.05)
            gone.set()

        do_POST = do_GET  # noqa: N815 - as http.server calls it

    with serving_http(Unfinished) as url:
        yield url, gone

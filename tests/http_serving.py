"""A small HTTP server in a thread of this process, for as long as a block runs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler


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

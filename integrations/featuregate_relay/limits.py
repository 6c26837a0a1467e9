"""Limits of one connection: how long and how much a client may send, how long it may read, and how old it gets.

uvicorn has no deadline for a request: nothing runs from the connect on, and the first byte stops the keep-alive timer.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable
from http import HTTPStatus
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

import httptools
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from featuregate_relay.connections import Connections, CountedTLS
from featuregate_relay.waiting import end_waits

if TYPE_CHECKING:
    import asyncio


RECEIVE_SECONDS: Final = 10.0
"""For a whole request, from the connect or its first byte on."""
SEND_SECONDS: Final = 30.0
"""For which a client may leave unread what fills its buffers."""
END_SECONDS: Final = 1.0
"""For which a client that has read everything may leave the end of TLS without an answer."""
HEAD_BYTES: Final = 16 * 1024
BODY_BYTES: Final = 128 * 1024
"""More than any path reads."""
MOST_PIPELINED: Final = 8
"""Requests that wait for the response to the one before. With each response uvicorn reads thousands more."""
AGE_SECONDS: Final = 300.0
"""After which a connection ends with its next response, so that clients spread over replicas again."""
_AGE_JITTER: Final = 0.2
_UPGRADE: Final = b"upgrade"
_FIELD_BYTES: Final = len(b": \r\n")

# A line for each malformed request would let any client fill the disk. Errors of the app are still logged.
_logger = logging.getLogger("uvicorn.error.requests")
_logger.setLevel(logging.ERROR)


def _is_error(record: logging.LogRecord) -> bool:
    """Say whether something went wrong. A request that the end of draining cancels is counted in a line of its own."""
    return not (record.exc_info and isinstance(record.exc_info[1], CancelledError))


_logger.addFilter(_is_error)


class _Loop(uvloop.Loop):
    """A loop whose servers do not wait for a minute until a client begins or ends its TLS handshake."""

    async def create_server(  # type: ignore[override]  # one for all its overloads
        self, protocol_factory: Callable[[], Any], *args: Any, **options: Any
    ) -> asyncio.AbstractServer:
        """Listen, as the loop does, with the deadline of a request, and count connections before the handshake."""
        tls = options.pop("ssl", None)

        def begin_tls() -> CountedTLS:
            return CountedTLS(
                self, protocol_factory(), tls, None, server_side=True, ssl_handshake_timeout=RECEIVE_SECONDS
            )

        return await super().create_server(protocol_factory if tls is None else begin_tls, *args, **options)


def make_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a relay, for uvicorn."""
    return _Loop()


class _TooLarge(Exception):
    """A part of the request is larger than its limit. httptools passes it on as an error of the parser."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. A client that breaks one gets a response with the reason, if it still reads."""

    def __init__(self, *args: Any, connections: Connections | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.open_connections = connections or Connections(1)
        self.logger = _logger
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._old_at = self.loop.time() + AGE_SECONDS * (1 - _AGE_JITTER * SystemRandom().random())
        self._received = 0
        """Bytes of the request, whatever they are: framing and trailers count, too."""
        self._head_bytes = 0
        self._body_bytes = 0
        self._in_head = True
        self._hides_upgrade = False
        self._refusal = HTTPStatus.BAD_REQUEST
        self._running: RequestResponseCycle | None = None

    # ------------------------------------------------------------------ what arrives

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin the time of the first request: a socket may stay silent."""
        super().connection_made(transport)
        self.open_connections.opened(self, transport)
        self._begin_receiving()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request. Even an empty line begins its time."""
        if self.transport.is_closing():
            return
        self._begin_receiving()
        self._received += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
            self._check_received()
        except (httptools.HttpParserError, _TooLarge):
            self.send_400_response("Invalid HTTP request received.")

    def _check_received(self) -> None:
        """Count every byte: the parser tells of no chunk extension, and of a field when it ends."""
        if self._in_head and self._received > HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._received > HEAD_BYTES + BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _parse(self, data: bytes) -> None:
        """Hide a request for another protocol, which a server may ignore (RFC 9110, 7.8).

        Java's own client asks for HTTP/2 in this way with each request, and httptools skips the body then.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :] if self._hides_upgrade else b""
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        head = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        head += [b"%b: %b" % header for header in self.headers if header[0] != _UPGRADE]
        return b"\r\n".join([*head, b"", b""])

    def on_message_begin(self) -> None:
        """Begin the time of a request, also of one that came with the one before."""
        super().on_message_begin()
        self._begin_receiving()
        self._in_head, self._head_bytes, self._body_bytes = True, 0, 0

    def on_url(self, url: bytes) -> None:
        """Count a part of the URL."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a field of the head, and drop a trailer (RFC 9110, 6.5.1): the app reads none, and it has the list."""
        if self._in_head:
            self._count_head(len(name) + len(value) + _FIELD_BYTES)
            super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Check the length of the body, and end an old connection with this response."""
        self._hides_upgrade = self.parser.should_upgrade() and any(name == _UPGRADE for name, _ in self.headers)
        if self._hides_upgrade:
            return  # the head is parsed again
        if any(name == b"content-length" and int(value) > BODY_BYTES for name, value in self.headers):
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _TooLarge
        super().on_headers_complete()
        self._in_head = False
        if self.loop.time() >= self._old_at:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Count what a chunked body has, and what requests have that wait for the response to the one before."""
        self._body_bytes += len(body)
        waiting = sum(len(cycle.body) for cycle, _ in self.pipeline)
        if max(self._body_bytes, waiting + len(body)) > BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the time of the request: how long the response takes is not the client's fault."""
        if self._hides_upgrade:
            return
        super().on_message_complete()
        self._in_head, self._received = True, 0  # what follows in this segment is not counted: it is in memory
        self._end_receiving()
        if not self.cycle.response_complete:  # a refusal may come before the body
            self.open_connections.is_busy(self)

    def on_response_complete(self) -> None:
        """Begin the next request of the pipeline. The connection is silent unless that request is whole."""
        if not self.pipeline or self.pipeline[-1][0].more_body:
            self.open_connections.is_silent(self)
        super().on_response_complete()
        self._end_tls()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """Refuse the request, and close. Where another response is due first, or this one has begun, only close."""
        if self._in_head:  # the last cycle is of the request before
            may_answer = self._running is None or self.cycle.response_complete
        else:
            may_answer = not (self.pipeline or self.cycle.response_started)
        if not may_answer:
            self._close()
            return
        text = msg if self._refusal == HTTPStatus.BAD_REQUEST else self._refusal.phrase
        head = f"HTTP/1.1 {self._refusal.value} {self._refusal.phrase}\r\nconnection: close\r\n"
        body = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\n\r\n{text}"
        self.transport.write((head + body).encode())
        self._close()

    # ------------------------------------------------------------------ the connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and what waits for a change."""
        self.open_connections.closed(self)
        self._end_receiving()
        self._end_sending()
        if self._running is not None:
            self._running.disconnected = True  # uvicorn looks at the last request only, which may not run yet
            self._running.message_event.set()
            end_waits(self._running.scope)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End the connection when the relay stops, after the response that is under way."""
        super().shutdown()
        self._end_tls()

    def _end_tls(self) -> None:
        """Wait no longer than that for a client that does not answer the end of TLS, such as one that is idle."""
        if self.transport.is_closing():
            self.loop.call_later(END_SECONDS, self._abort_if_read)

    def _abort_if_read(self) -> None:
        if not self.transport.get_write_buffer_size():
            self.transport.abort()

    def _close(self) -> None:
        """Close, and do not wait for ever until the client has read what was written."""
        self.transport.close()
        self._sending = self._sending or self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Begin the time in which the client must read on."""
        super().pause_writing()
        self._sending = self._sending or self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """End that time."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._end_sending()

    def _refuse(self, status: HTTPStatus) -> None:
        self._refusal = status
        raise _TooLarge

    def _begin_receiving(self) -> None:
        self._receiving = self._receiving or self.loop.call_later(RECEIVE_SECONDS, self._close)

    def _end_receiving(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _end_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

"""The connection to a relay: kept between polls, closed when polling ends, and not trusted when it has been idle."""

import asyncio
import gc
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from time import sleep
from typing import NamedTuple

import pytest
import requests
from http_serving import serving_http
from waiting import BOUND, eventually

from featuregate import Discoverer, HttpSource, abortable
from featuregate.abortable import AbortableAdapter
from featuregate.errors import RelayError
from featuregate.testing import release_view

HOUR = 3600.0
VIEW = release_view("4.2")
BODY = VIEW.to_json().encode()
ANSWER = b"HTTP/1.1 200 OK\r\nFeaturegate-Age: 0\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
REFUSAL = b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n"
NO_ANSWER, HALF_AN_ANSWER = b"", ANSWER[:10]


class Relay(NamedTuple):
    """What a relay has seen: connections have numbers from 0 on."""

    url: str
    requests: list[int]
    """The connection of each request."""
    ended: list[int]
    """The connections that have ended."""


@contextmanager
def relay(*answers: bytes | None) -> Iterator[Relay]:
    """Serve these answers, one for each request, and the last one again and again.

    What is no whole answer ends the connection; None waits until the client does.
    """
    asked: list[int] = []
    ended: list[int] = []
    known: list[object] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            known.append(self)

        def do_GET(self) -> None:
            asked.append(known.index(self))
            answer = answers[min(len(asked), len(answers)) - 1]
            if answer is None:
                self.rfile.read(1)
            else:
                self.wfile.write(answer)
            self.close_connection = answer not in {ANSWER, REFUSAL}

        do_POST = do_GET  # noqa: N815 - the names are those of http.server

        def finish(self) -> None:
            super().finish()
            ended.append(known.index(self))

    with serving_http(Handler) as url:
        yield Relay(url, asked, ended)


def fetch(source: HttpSource) -> None:
    assert asyncio.run(source.fetch()).view == VIEW


# ---------------------------------------------------------------- closed when polling ends


def test_the_connection_ends_with_the_discoverer() -> None:
    """Also while the source is referenced: otherwise the socket would stay in CLOSE_WAIT."""
    with relay(ANSWER) as peer:
        source = HttpSource(peer.url, wait=0)
        with Discoverer(source=source, interval=HOUR) as features:
            features.refresh(BOUND)
            assert peer.ended == []
        eventually(lambda: peer.ended == [0])


def test_a_poll_that_is_given_up_leaves_no_connection() -> None:
    """Nor a request to the next relay, nor a rest of this one."""
    with relay(ANSWER, None) as peer, relay(ANSWER) as other:
        source = HttpSource([other.url, peer.url], timeout=HOUR, chance=lambda: 0.9)
        fetch(source)
        features = Discoverer(source=source, interval=HOUR).start()
        eventually(lambda: peer.requests == [0, 0])
        features.close()
        eventually(lambda: peer.ended == [0])
        for thread in threading.enumerate():
            if thread.name == "featuregate-blocking-call":
                thread.join(BOUND)
        assert (peer.requests, other.requests) == ([0, 0], [])
        assert source._relays[0].rest == 0


def test_a_source_that_was_closed_opens_another_connection() -> None:
    """A second close does nothing."""
    with relay(ANSWER) as peer:
        source = HttpSource(peer.url)
        fetch(source)
        source.close()
        source.close()
        fetch(source)
        fetch(source)
        assert peer.requests == [0, 1, 1]
        source.close()
        eventually(lambda: sorted(peer.ended), met=lambda ended: ended == [0, 1])


def test_a_connection_on_which_a_request_failed_is_closed() -> None:
    """At once, and not when garbage is collected; also one of a poll that the caller has given up meanwhile."""
    with relay(REFUSAL) as refusing, relay(ANSWER) as answering:
        gc.disable()
        try:
            with pytest.raises(RelayError):
                fetch(HttpSource(refusing.url))
            eventually(lambda: refusing.ended == [0])
            HttpSource(answering.url)._relays[0].get(None, None, BOUND, lambda: False)
            eventually(lambda: answering.ended == [0])
        finally:
            gc.enable()


def test_a_forked_child_closes_its_end_and_leaves_the_connection_to_its_parent() -> None:
    """It asks on one of its own. That of the parent ends with the source of the parent, not with the child."""
    with relay(ANSWER) as peer:
        source = HttpSource(peer.url)
        fetch(source)
        told, tell = os.pipe()
        done, end = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(end)
                fetch(source)
                os.write(tell, b"x")
                os.read(done, 1)
                code = 0
            finally:
                os._exit(code)
        os.close(tell)
        try:
            assert os.read(told, 1) == b"x"
            fetch(source)
            assert peer.requests == [0, 1, 0]
            source.close()
            eventually(lambda: peer.ended == [0])
        finally:
            os.close(end)
            _, status = os.waitpid(child, 0)
            os.close(told)
            os.close(done)
        assert os.waitstatus_to_exitcode(status) == 0


# ---------------------------------------------------------------- a kept connection that has just ended


def test_a_request_is_sent_again_where_a_kept_connection_ended_without_an_answer() -> None:
    """A server ends an idle connection, perhaps in the moment of the next poll: that is no failure."""
    with relay(ANSWER, NO_ANSWER, ANSWER) as peer:
        source = HttpSource(peer.url)
        fetch(source)
        fetch(source)
        assert peer.requests == [0, 0, 1]


@pytest.mark.parametrize(
    ("answers", "asked"),
    [([NO_ANSWER], [0]), ([ANSWER, NO_ANSWER], [0, 0, 1]), ([ANSWER, HALF_AN_ANSWER], [0, 0])],
    ids=["new connection", "twice", "half an answer"],
)
def test_other_connections_that_end_are_failures(answers: list[bytes], asked: list[int]) -> None:
    """A new one says that the relay is not well, and a request is sent again once."""
    with relay(*answers) as peer:
        source = HttpSource(peer.url)
        for _ in answers[1:]:
            fetch(source)
        with pytest.raises(RelayError):
            fetch(source)
        assert peer.requests == asked


def test_a_connection_that_cannot_be_opened_is_not_opened_again() -> None:
    """The kept one has ended before, and the relay is gone."""
    with relay(ANSWER, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as peer, requests.Session() as session:
        adapter = AbortableAdapter()
        session.mount("http://", adapter)
        for _ in range(2):
            session.get(peer.url, timeout=BOUND)
        eventually(lambda: peer.ended == [0])
    before = adapter.connects
    with pytest.raises(requests.ConnectionError):
        session.get(peer.url, timeout=BOUND)
    assert adapter.connects == before + 1


def test_a_request_that_was_ended_is_not_sent_again() -> None:
    """Its connection ends without an answer, too."""
    with relay(ANSWER, None) as peer, requests.Session() as session:
        adapter = AbortableAdapter()
        session.mount("http://", adapter)
        session.get(peer.url, timeout=BOUND)
        with adapter.limited(0.05), pytest.raises(requests.ConnectionError):
            session.get(peer.url, timeout=BOUND)
        assert adapter.connects == 1


def test_what_may_have_had_an_effect_is_not_sent_again() -> None:
    """A POST may have been handled, although no answer came."""
    with relay(ANSWER, NO_ANSWER) as peer, requests.Session() as session:
        session.mount("http://", AbortableAdapter())
        session.post(peer.url, timeout=BOUND)
        with pytest.raises(requests.ConnectionError):
            session.post(peer.url, timeout=BOUND)
        assert peer.requests == [0, 0]


def test_requests_end_while_another_thread_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that ends them, as after their time, does not fail for a socket that is new."""
    monkeypatch.setattr(abortable, "_shut_down", lambda _: None)
    before, adapter = sys.getswitchinterval(), AbortableAdapter()
    sockets = [socket.socket() for _ in range(300)]

    def connect() -> None:
        for each in sockets:
            adapter.connected(each)
            sleep(0)

    try:
        sys.setswitchinterval(1e-6)
        thread = threading.Thread(target=connect)
        thread.start()
        while thread.is_alive():
            adapter.abort()
        thread.join()
    finally:
        sys.setswitchinterval(before)
        for each in sockets:
            each.close()

"""Relays without a socket: requests of `requests` reach ASGI apps in this process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

import responses
from waiting import BOUND

if TYPE_CHECKING:
    from requests import PreparedRequest
    from starlette.types import ASGIApp, Message

Response = tuple[int, dict[str, str], bytes]
R = TypeVar("R")


@contextmanager
def serving(apps: Mapping[str, ASGIApp], delay: Callable[[], None]) -> Iterator[None]:
    """Answer requests to these hosts by their apps. Each request and each response is delayed."""

    def answer(request: PreparedRequest) -> Response:
        delay()
        response = asyncio.run(call(apps[urlsplit(request.url).hostname], request.url, request.headers))
        delay()
        return response

    with responses.RequestsMock(assert_all_requests_are_fired=False) as network:
        network.add_callback(responses.GET, re.compile("http://.*"), callback=answer)
        yield


async def call(
    app: ASGIApp,
    target: str,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    body: bytes = b"",
    hear: Callable[[bytes], None] = lambda _: None,
) -> Response:
    """Send a request for a path, with its query, to an app; ``hear`` gets each piece of the body as it comes."""
    url = urlsplit(target)
    sent: list[Message] = []

    received = asyncio.Event()

    async def receive() -> Message:
        if received.is_set():
            await asyncio.get_running_loop().create_future()  # the client stays
        received.set()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)
        hear(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(url.path),
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    await app(scope, receive, send)
    start, *bodies = sent
    return (
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in bodies),
    )


async def answered_after(change: Callable[[], object], *requests: Awaitable[R], silent: float = 0.05) -> list[R]:
    """Return what requests are answered with once something changes; none is for so many seconds before."""
    async with asyncio.timeout(BOUND):
        waiting = [asyncio.ensure_future(each) for each in requests]
        done, _ = await asyncio.wait(waiting, timeout=silent)
        assert not done
        change()
        return await asyncio.gather(*waiting)

"""What a relay answers before the framework finds a route is what the routes answer, byte for byte."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message

from featuregate.sources.seen import Seen, cluster_of
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.authentication import ANYONE, RelayClient
from featuregate_relay.access.hosts import NotStored
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.flags.ofrep import Evaluations
from featuregate_relay.views.view_answers import UnchangedViews

VIEWS = (None, release_view("3.9"), replace(release_view("4.2"), epoch=10_000))
FLAGS = "/ofrep/v1/evaluate/flags"
BASES = ("", "/v1/clusters/orders", "/v1/clusters/stock", "/elsewhere")
KEYS = ("", "/", "/groups", "/level.group.version", "/level.none", "s", f"/{FLAGS}/groups", "/a\nb", "//groups")
BODIES = (
    b"{}",
    b'{"context":{"targetingKey":"a"}}',
    b'{"context":{"name":"\\ud800"}}',
    b'{"context":1}',
    b"[]",
    b"{",
    b"",
    b"\xff",
    b"[" * 5000,
    b" " * 65_537,
)
AHEAD = Seen(cluster=cluster_of("x"), epoch=99_999).text
CLIENTS = (ANYONE, RelayClient("app", None), RelayClient("app", frozenset({"orders"})), RelayClient("app", frozenset()))
GZIP = (b"accept-encoding", b"gzip")


def relay(view: Any) -> Starlette:
    features = StaticFeatures(view)
    return make_app(
        {"orders": PolledCluster(features, (features.gate("groups", "group.version>=1"),))}, floor_seconds=0
    )


RELAYS = [relay(view) for view in VIEWS]


def routes_of(app: Starlette) -> Starlette:
    return Starlette(routes=app.routes, exception_handlers=app.exception_handlers, middleware=[Middleware(NotStored)])


def ask(app: ASGIApp, request: dict[str, Any], client: RelayClient, pieces: Sequence[bytes] = (b"",)) -> list[Message]:
    sent: list[Message] = []
    messages = [
        {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
        for number, piece in enumerate(pieces, 1)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "root_path": "", "query_string": b"", "state": {"client": client}}
    asyncio.run(app(scope | request, receive, send))
    start, *bodies = sent
    return [start | {"headers": sorted(start["headers"])}, *({"body": b""} | body for body in bodies)]


def tags(app: Starlette, path: str, method: str, client: RelayClient) -> list[bytes]:
    """Return entity tags that a request may have: of now, of another time, and no such tags."""
    start, *_ = ask(app, {"method": method, "path": path, "headers": []}, client, [b"{}"])
    found = [value for name, value in start["headers"] if name == b"etag"]
    others = [tag.replace(b".", b".1", 1) for tag in found] + [b"W/" + tag for tag in found]
    return [*found, *others, b", ".join([b'"a"', *found]), b"*", b'"a"', b"\xff"]


@st.composite
def evaluations(draw: st.DrawFn) -> tuple[Starlette, dict[str, Any], RelayClient, list[bytes]]:
    app, client = draw(st.sampled_from(RELAYS)), draw(st.sampled_from(CLIENTS))
    path = draw(st.sampled_from(BASES)) + FLAGS + draw(st.sampled_from(KEYS) | st.text())
    tag = draw(st.none() | st.sampled_from(tags(app, "/v1/clusters/orders" + FLAGS, "POST", client)))
    headers = [] if tag is None else [(b"if-none-match", tag)]
    body = draw(st.sampled_from(BODIES) | st.binary())
    cut = draw(st.integers(0, len(body)))
    pieces = draw(st.sampled_from([[body], [body[:cut], body[cut:]]]))
    return app, {"method": draw(st.sampled_from(["POST", "GET"])), "path": path, "headers": headers}, client, pieces


@given(evaluations())
def test_flags_are_those_of_the_routes(case: tuple[Starlette, dict[str, Any], RelayClient, list[bytes]]) -> None:
    app, request, client, pieces = case
    assert ask(app, request, client, pieces) == ask(routes_of(app), request, client, pieces)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("query", [b"", b"seen=" + AHEAD.encode(), b"seen=x", b"wait=x"])
@pytest.mark.parametrize("app", RELAYS)
def test_a_view_is_that_of_the_route(app: Starlette, query: bytes, client: RelayClient) -> None:
    path = "/v1/clusters/orders/view"
    for tag in tags(app, path, "GET", ANYONE):
        for more in ([], [GZIP]):
            request = {
                "method": "GET",
                "path": path,
                "query_string": query,
                "headers": [(b"if-none-match", tag), *more],
            }
            assert ask(app, request, client) == ask(routes_of(app), request, client)


@pytest.mark.parametrize(
    ("first", "method", "path"), [(Evaluations, "POST", FLAGS), (UnchangedViews, "GET", "/v1/clusters/orders/view")]
)
def test_most_requests_are_answered_before_the_framework(first: type[Any], method: str, path: str) -> None:
    """Otherwise the tests above would compare the routes with themselves."""
    app = relay(VIEWS[1])
    tag = tags(app, path, method, ANYONE)[0]
    app.user_middleware = [each for each in app.user_middleware if each.cls is first]
    app.router.routes.clear()
    app.middleware_stack = None
    request = {"method": method, "path": path, "headers": [(b"if-none-match", tag)]}
    assert ask(app, request, ANYONE, [b"{}"])[0]["status"] == 304

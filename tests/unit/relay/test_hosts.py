"""A relay for this machine alone answers no page of another site that lets its own name lead here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.hosts import names_this_machine
from featuregate_relay.app import PolledCluster, make_app

if TYPE_CHECKING:
    from starlette.types import Message

HERE = [
    "localhost",
    "LOCALHOST:8080",
    "localhost.",
    "127.0.0.1",
    "127.0.0.1:8080",
    "127.9.9.9:1",
    "[::1]",
    "[::1]:8080",
]
ELSEWHERE = [
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io:8080",
    "evil.example:127.0.0.1",
    "[::1].evil.example",
    "[evil.example]",
    "localhost@evil.example",
    "",
    "\xb5",
]


@pytest.mark.parametrize("host", [*HERE, *ELSEWHERE])
def test_this_machine_has_its_names_and_no_other(host: str) -> None:
    """A name server decides none of them, however much another looks like one."""
    assert names_this_machine(host) == (host in HERE)


def status(path: str, *hosts: str, local_only: bool = True, method: str = "GET") -> int:
    app = make_app({"default": PolledCluster(StaticFeatures(release_view("4.2")))}, local_only=local_only)
    sent: list[Message] = []
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"host", host.encode("latin-1")) for host in hosts],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("path", ["/", "/v1/clusters", "/v1/clusters/default/view", "/metrics", "/healthz", "/none"])
def test_every_path_is_refused_for_another_host(path: str) -> None:
    assert status(path, "evil.example") == status(path, "localhost", "evil.example") == 421
    assert status(path, "localhost:8080") == status(path) != 421


def test_flags_are_refused_for_another_host() -> None:
    """They are answered before the framework otherwise."""
    path = "/ofrep/v1/evaluate/flags"
    assert [status(path, host, method="POST") for host in ("evil.example", "127.0.0.1")] == [421, 200]


def test_a_relay_for_others_answers_for_any_host() -> None:
    assert status("/healthz", "relay.example", local_only=False) == 200

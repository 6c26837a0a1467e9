"""A body that nobody needs is not read, however long it is and whatever the status says."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest
from http_serving import serving_http

import featuregate as fg
from featuregate.cli.app import main
from featuregate.config.oauthbearer import ClientCredentials
from featuregate.config.secrets import Secret
from featuregate.credentials.tokens import TokenFetcher
from featuregate.errors import FeatureGateError

PIECE = b"x" * 1_000_000
PIECES = 200


def probe(url: str) -> None:
    assert main(["health", f"{url}/readyz"]) in {0, 1, 2}


def token(url: str) -> None:
    source = ClientCredentials(endpoint=f"{url}/token", client_id="i", client_secret=Secret("s"))
    with suppress(FeatureGateError):
        TokenFetcher().fetch(source, 5)


def relay(url: str) -> None:
    with suppress(FeatureGateError):
        asyncio.run(fg.HttpSource(url, timeout=5).fetch())


@pytest.mark.parametrize("status", [200, 302, 503])
@pytest.mark.parametrize("ask", [probe, token, relay])
def test_no_more_of_a_body_is_read_than_is_believed(ask: Callable[[str], None], status: int) -> None:
    """`requests` reads the whole body of a redirect, even where it must not follow it."""
    sent = []

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            with suppress(OSError):
                for _ in range(PIECES):
                    self.wfile.write(PIECE)
                    sent.append(len(PIECE))

        def do_POST(self) -> None:
            self.do_GET()

    with serving_http(Endless) as url:
        ask(url)
    assert sum(sent) < 30_000_000, "the bound of a relay's response, and what fits into buffers"

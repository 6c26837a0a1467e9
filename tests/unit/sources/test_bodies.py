"""Bodies of relays that expand, do not end, or are not what they say."""

import asyncio
import gzip
import tracemalloc
import zlib
from http.server import BaseHTTPRequestHandler

import pytest
from http_serving import serving_http

from featuregate import HttpSource, budgets
from featuregate.errors import RelayError
from featuregate.sources.relay_responses import freshness_of
from featuregate.testing import release_view

VIEW = release_view("4.2")
BODY = VIEW.to_json().encode()
HEADERS = {"Featuregate-Age": "0", **freshness_of(VIEW)}
MIB = 1024 * 1024


def fetched(body: bytes, *, status: int = 200, **headers: str):
    """Fetch from a relay that answers so; underscores of header names stand for hyphens."""
    asked = []

    class Relay(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers)
            self.send_response(status)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            for name, value in (HEADERS | {"Content-Length": str(len(body))} | named).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Relay) as url:
        try:
            return asyncio.run(HttpSource(url).fetch()).view
        finally:
            assert [headers["Accept-Encoding"] for headers in asked] == ["gzip"]


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
def test_a_compressed_view_is_read(coding) -> None:
    """gzip is the only coding that a request accepts."""
    assert fetched(gzip.compress(BODY), Content_Encoding=coding) == VIEW
    assert fetched(BODY) == VIEW


def test_invariant_14_a_body_that_expands_to_gigabytes_takes_some_megabytes() -> None:
    """64 KB of gzip hold 64 MB of zeros; decoding ends at the ratio."""
    bomb = gzip.compress(bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(RelayError, match="the response is refused: it expands to more than 300 times its size"):
            fetched(bomb, Content_Encoding="gzip")
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("status", [200, 404, 503])
def test_an_error_has_the_same_limits_as_a_view(status) -> None:
    """Its text is not made before it is cut."""
    with pytest.raises(RelayError, match="expands to more than"):
        fetched(gzip.compress(b" " * 40 * MIB), status=status, Content_Encoding="gzip")


def test_a_body_has_as_many_bytes_as_are_allowed() -> None:
    """One more is refused, whatever the ratio."""
    padding = budgets.MOST_RELAY_BYTES - len(BODY)
    assert fetched(BODY + b" " * padding) == VIEW
    with pytest.raises(RelayError, match="more than 16777216 bytes"):
        fetched(BODY + b" " * (padding + 1))


@pytest.mark.parametrize("coding", ["deflate", "br", "zstd", "gzip, gzip", "gzip,identity", "\x07"])
def test_a_coding_that_was_not_asked_for_is_refused(coding) -> None:
    """Two codings in a row would multiply what one may expand to."""
    with pytest.raises(RelayError, match="which was not asked for"):
        fetched(zlib.compress(BODY), Content_Encoding=coding)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (gzip.compress(BODY)[:-9], "its gzip stream is cut"),
        (gzip.compress(BODY) + b"more", "bytes follow the end of its gzip stream"),
        (BODY, "its gzip stream is damaged"),
        (b"", "its gzip stream is cut"),
    ],
)
def test_a_damaged_stream_is_one_clear_error(body, says) -> None:
    """The error says what is wrong with the stream."""
    with pytest.raises(RelayError, match=f"refused: {says}"):
        fetched(body, Content_Encoding="gzip")


@pytest.mark.parametrize(
    "value", [b'"' + b"x" * MIB + b'"', b"[" + b"[]," * 100_000 + b"[]]", b'{"a":' + b"1" * 4000 + b"}"]
)
def test_a_value_of_another_type_is_shown_in_part(value) -> None:
    """The text of the error does not grow with the value."""
    with pytest.raises(RelayError, match="expected an integer, not") as caught:
        fetched(BODY.replace(b'"epoch": 100', b'"epoch": ' + value, 1))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("half", [b"\\ud800", b"\\uDFFF", b"\\udc00\\ud800", b"\\ud800x"])
def test_half_a_surrogate_pair_is_refused_where_json_is_read(half) -> None:
    """A later answer without one is taken: no gate stays closed until a restart."""
    with pytest.raises(RelayError, match="half a surrogate pair"):
        fetched(BODY.replace(b"transaction.version", half, 1))
    assert fetched(BODY) == VIEW


def test_a_whole_surrogate_pair_is_a_character() -> None:
    """JSON escapes characters beyond 65,535 as two."""
    view = fetched(BODY.replace(b"transaction.version", b"\\ud83d\\ude00"))
    assert "\U0001f600" in view.supported


def test_a_document_of_nothing_but_brackets_is_refused() -> None:
    """It would take a hundred times its bytes."""
    with pytest.raises(RelayError, match="more than the 2000000 that are believed"):
        fetched(b"[" + b"[]," * 1_000_001 + b"[]]")


@pytest.mark.parametrize("field", ["supported", "finalized", "api_ranges"])
def test_a_view_of_thousands_of_apis_or_features_is_refused(field) -> None:
    """As an answer of a broker is."""
    value = {"supported": "[1, 1]", "finalized": "1", "api_ranges": '{"min": 0, "max": 1}'}[field]
    many = ", ".join(f'"{number}": {value}' for number in range(513))
    start = BODY.index(f'"{field}": {{'.encode())
    end = BODY.index(b"}", start) if field != "api_ranges" else BODY.index(b"}}", start) + 1
    with pytest.raises(RelayError, match="513 are more than the 512"):
        fetched(BODY[:start] + f'"{field}": {{{many}'.encode() + BODY[end:])


def test_a_view_of_more_brokers_than_a_cluster_can_have_is_refused() -> None:
    """The error says where."""
    start = BODY.index(b'"brokers": [')
    with pytest.raises(RelayError, match=r"view\.brokers: 5001 brokers are more than a cluster can have"):
        fetched(BODY[:start] + b'"brokers": [' + b"1," * 5000 + b'1], "x": [' + BODY[start + 12 :])

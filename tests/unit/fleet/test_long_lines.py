"""Long lines that a client or a shipper may have made: their cost grows as they do, not with the square."""

import json
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest

pytest.importorskip("pyarrow")

from fleet_lines import read_line

from featuregate_fleet.evidence.lines.envelopes import events_in, unwrap
from featuregate_fleet.evidence.lines.one_line import read_head, read_unwrapped, refusal_in
from featuregate_fleet.evidence.lines.partial_lines import LinePart, PartialLines
from featuregate_fleet.evidence.lines.request import LoggedRequest, Unwrapped

SHORT = 4_096
TIMES = 4
"""How many times as long the other line is."""
ALLOWED = 2 * TIMES
"""How many times as long it may take: the square would be 16."""
SLACK = 0.01
"""Seconds that are no proof of anything."""

BEGIN = "[2026-11-22 21:08:02,254] DEBUG Completed request:"
HEAD = f"{BEGIN}RequestHeader(apiKey=FETCH, apiVersion=4, clientId="
OLD = f"{BEGIN}{{api_key=1,api_version=4,correlation_id=1,client_id=x}} -- "
TAIL = f"{OLD} from connection a:1-b:2-0;totalTime:1,securityProtocol:PLAINTEXT,principal:"
ERROR = "[2026-11-22 21:08:02,254] ERROR Closing socket for {} because of error"
EXCEPTION = "org.apache.kafka.common.errors.InvalidRequestException: "
REASON = f"{EXCEPTION}Error getting request for apiKey: FETCH, apiVersion: 1, connectionId: a, listenerName: x"
REPEATED = (
    " ", "\t", "[", "1", '"', "\\", '\\"', "\x1b[1;", "] ", "{", " -- ", "(a) ", " [a]", ":[a]", ":1-", "kafka.a.b",
    ", correlationId=1", " from connection a", ",aTime:1", ",listener:P", ", principal: x", "; ReplicaId", "Nov 1 ",
    EXCEPTION, f" {REASON}", "Completed request:",
)  # fmt: skip
AROUND = {
    "alone": ("", ""),
    "the client id": (HEAD, ""),
    "a whole head": (HEAD, ", correlationId=1) -- x"),
    "the principal": (TAIL, "\0"),
    "behind the listener": (f"{TAIL}U,listener:P", "\0"),
    "times": (f"{OLD} from connection a;totalTime:", ""),
    "JSON": (f'{BEGIN}{{"isForwarded":false,"requestHeader":{{"clientId":"', ""),
    "quotes": ('"', 'Completed request:{\\"'),
    "an error": ("[2026-11-22 21:08:02,254] ERROR Closing socket for ", "x because of error"),
    "a reason": (REASON, "\nx"),
}


def read(line: str) -> None:
    """Read a line as each reader does, as if it were a request, a refusal and the reason of one."""
    unwrapped = unwrap(line)
    read_unwrapped(unwrapped)
    read_head(unwrapped)
    refusal_in(unwrapped, partial(unwrap, ERROR.format("a:1-b:2-0")))
    refusal_in(unwrap(f"{REASON}, principal: U"), lambda: unwrapped)


def seconds(act: Callable[[], object]) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin


def grows_too_much(made: Callable[[int], Callable[[], object]]) -> bool:
    """Return whether a text of four times the length takes much more than four times as long, each time of three."""
    return all(seconds(made(SHORT * TIMES)) > ALLOWED * seconds(made(SHORT)) + SLACK for _ in range(3))


def reading(begin: str, repeated: str, end: str) -> Callable[[int], Callable[[], object]]:
    def made(length: int) -> Callable[[], object]:
        line = begin + (repeated * (length // len(repeated) + 1))[:length] + end
        return lambda: read(line)

    return made


@pytest.mark.parametrize(("begin", "end"), AROUND.values(), ids=AROUND)
def test_no_repetition_in_a_line_takes_the_square_of_its_length(begin: str, end: str):
    """Clients choose their texts, and brokers log them: a request of some kilobytes must not stop the reader."""
    assert [repeated for repeated in REPEATED if grows_too_much(reading(begin, repeated, end))] == []


def with_exceptions(count: int) -> str:
    """Return an error in JSON with many names of exceptions, and as many messages."""
    names = [f"kafka.network.A{number}Exception" for number in range(count)]
    messages = [f"Received request {number}" for number in range(count)]
    return json.dumps({"message": ERROR.format("a:1-b:2-0"), "names": names, "messages": messages})


def test_an_error_in_json_needs_no_memory_for_each_pair_of_its_texts():
    """A name of an exception and a message are one reason; a thousand of each are no million."""
    line = with_exceptions(1_000)
    tracemalloc.start()
    try:
        text = unwrap(line).text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(text) < len(line)
    assert peak < 20 * len(line)


def test_the_message_of_a_refusal_is_found_among_other_texts():
    """Also where another exception has a name in the document."""
    thrown = {
        "cause": "kafka.network.OtherException",
        "name": "org.apache.kafka.common.errors.InvalidRequestException",
        "thread": "x",
        "text": "Received request api key FETCH with version 99 which is not enabled",
    }
    line = json.dumps({"message": ERROR.format("a:1-b:2-0"), "thrown": thrown})
    found = refusal_in(unwrap(line), partial(unwrap, ""))
    assert isinstance(found, LoggedRequest)
    assert (found.client_host, found.api_key, found.version) == ("b", 1, 99)


# ---------------------------------------------------------------- parts of lines


def parts_of(begin: str, part: str) -> Callable[[int], Callable[[], object]]:
    """Return what joins the parts of a line of a given length, of which the end does not come."""

    def made(length: int) -> Callable[[], object]:
        lines = [
            (unwrap(json.dumps({"log": text, "stream": "stdout"})), LinePart(0, ""))
            for text in [begin, *[part] * (8 * length // len(part))]
        ]

        def act() -> None:
            partial = PartialLines()
            assert all(partial.add(*line) == (None, None) for line in lines)
            assert len(partial.without_end()) == 1

        return act

    return made


ENDLESS = {
    "JSON": (f'{BEGIN}{{"isForwarded":false,"request":"', "}"),
    "objects": (f'{BEGIN}{{"isForwarded":false,"request":[', "{},"),
    "no JSON": (f'{BEGIN}{{"a"}}', "}"),
}


@pytest.mark.parametrize(("begin", "repeated"), ENDLESS.values(), ids=ENDLESS)
@pytest.mark.no_cover
def test_many_parts_of_a_line_do_not_take_the_square_of_its_length(begin: str, repeated: str):
    """Only the first one is read before the end of the line comes."""
    assert not grows_too_much(parts_of(begin, (repeated * 64)[:64]))


@pytest.mark.parametrize("levels", [3, 100, 400, 900, 5_000])
def test_objects_in_objects_end_no_task(levels: int) -> None:
    """Python's stack holds a thousand calls: a line of deep JSON is a line without a request."""
    assert isinstance(read_line('{"a":' * levels + "1" + "}" * levels), str)


def with_requests(count: int) -> str:
    """Return one document with many requests, in texts of its own and in a list."""
    texts = [f"{BEGIN}{{{number}" for number in range(100_000, 100_000 + count)]
    return json.dumps(dict(enumerate(texts)) | {"others": [{"log": f"{text},"} for text in texts]})


def test_many_requests_in_one_document_are_compared_once():
    """Each with its neighbours in order: those of the list are the same ones, and count once."""
    line, found = with_requests(4_000), list[Unwrapped]()
    assert (
        seconds(lambda: found.extend(events_in(line))) < 5
    )  # each with each takes most of a minute, and this half a second
    assert len(found) == 4_000


def test_many_documents_in_one_line_do_not_take_the_square_of_its_length():
    """Firehose writes no line feed between them: that none of the line has a request in fields is asked once."""
    assert not grows_too_much(lambda length: partial(events_in, '{"message":"a"}' * (4 * length)))


def test_a_short_text_of_a_request_stands_for_none_of_its_own():
    """A shipper adds the line as it was, or its beginning, which several requests may share."""
    whole = [f'{BEGIN}{{"requestApiKey":{number}}}' for number in (1, 2)]
    texts = [f"{'x' * 90} {BEGIN}{{", whole[0], whole[1], f"{whole[0]} more"]
    assert [event.text for event in events_in(json.dumps(dict(enumerate(texts))))] == [f"{whole[0]} more", whole[1]]

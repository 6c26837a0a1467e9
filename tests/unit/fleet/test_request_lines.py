"""One line of the request log, and many at once: both ways of reading give the same answer."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import TEXT, document, line_of, read_line  # noqa: E402 - after the check for the extra
from fleet_rows import read_fast  # noqa: E402 - likewise

from featuregate_fleet.evidence import reasons  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import LoggedRequest  # noqa: E402 - likewise

TEXT_BEFORE_1 = (
    "[2026-11-22 21:08:39,958] DEBUG Completed request:{api_key=3,api_version=4,correlation_id=2,client_id=a} -- "
    "{topics=[]} from connection 127.0.0.1:9092-127.0.0.1:50000;totalTime:16.341000,requestQueueTime:0.1,sendTime:0,"
    "securityProtocol:SSL,principal:User:a (kafka.request.logger)"
)


def is_text(line: str) -> bool:
    return "request:RequestHeader(" in line or "request:{api_key=" in line


def test_a_line_says_which_client_used_which_version():
    """The fields of the head and of the tail, and nothing of the bodies."""
    assert read_line(line_of(document())) == LoggedRequest(
        time=datetime(2026, 11, 22, 21, 8, 39, 958_000, UTC),
        level="DEBUG",
        forwarded=False,
        api_key=1,
        version=16,
        client_id="audit",
        principal="User:audit",
        listener="CLIENT",
        software_name="confluent-kafka-python",
        software_version="2.16.1",
        client_host="127.0.0.1",
    )


@pytest.mark.parametrize(
    ("changed", "connection"),
    [
        ({"requestApiKey": 18}, "127.0.0.1:9092-127.0.0.1:50000-0-1"),
        ({"requestApiKey": 18, "isForwarded": True}, None),
        ({"requestApiKey": 3}, None),
    ],
)
def test_a_request_for_api_versions_says_its_connection(changed: dict[str, Any], connection: str | None):
    """A refusal names the connection, and no client. Most connections begin with this request."""
    line = line_of(document(**changed))
    for read in (read_line(line), *read_fast(line, line_of(document()))[:1]):
        assert isinstance(read, LoggedRequest)
        assert read.connection == connection


@pytest.mark.parametrize(
    ("connection", "host"),
    [
        ("10.0.0.1:9092-10.0.0.7:50000-2", "10.0.0.7"),
        ("10.0.0.1:9092-10.0.0.7:50000-0-12", "10.0.0.7"),
        ("0:0:0:0:0:0:0:1:9092-2001:db8:0:0:0:0:0:7:50000-2", "2001:db8:0:0:0:0:0:7"),
        ("fe80:0:0:0:0:0:0:1%br-0:9092-fe80:0:0:0:0:0:0:2%br-0:50000-2", "fe80:0:0:0:0:0:0:2%br-0"),
        ("no connection", None),
    ],
)
def test_a_line_says_from_where_its_connection_came(connection: str, host: str | None):
    """Kafka writes addresses of version 6 in full, some with the interface."""
    line = line_of(document(connection=connection))
    assert isinstance(read := read_line(line), LoggedRequest)
    assert read.client_host == host
    assert read_fast(line)[0] in {read, None}
    assert (read_fast(line)[0] is None) == (host is None or "%" in host)


def test_the_line_of_a_forwarded_request_has_the_connection_of_a_broker():
    """The address of the client is in the line of that broker."""
    line = line_of(document(isForwarded=True))
    assert [getattr(read, "client_host", "") for read in (read_line(line), *read_fast(line))] == [None, None]


def test_a_line_of_a_real_broker_says_the_same(real_lines: Sequence[str]):
    """Up to 2.7 brokers log requests as text, which any client can write, so that none counts."""
    found = [read_line(line) for line in real_lines if "Completed request:" in line]
    if any(map(is_text, real_lines)):
        assert set(found) == {reasons.TEXT_LOG}
        return
    read = [each for each in found if isinstance(each, LoggedRequest)]
    assert len(read) == len(found)
    assert {(each.client_id, each.api_key, each.version) for each in read} >= {("ancient", 3, 0)}
    (odd,) = {each.client_id for each in read if "bill" in (each.client_id or "")}
    assert '"ing' in str(odd)
    assert "2.16.1-rdkafka-2.16.0" in {each.software_version for each in read}
    assert {each.principal for each in read} == {"User:ANONYMOUS"}
    assert {each.listener for each in read} & {"CLIENT", "PLAINTEXT"}


def test_a_client_that_did_not_say_its_software_has_none():
    """Kafka logs the word unknown in place of both."""
    found = read_line(line_of(document(softwareName="unknown", softwareVersion="unknown")))
    assert isinstance(found, LoggedRequest)
    assert (found.software_name, found.software_version) == (None, None)


def test_both_ways_read_what_real_brokers_wrote(real_lines: Sequence[str]):
    """The fast path reads most lines, and what it reads is what the full parser reads."""
    requests = [found for line in real_lines if isinstance(found := read_line(line), LoggedRequest)]
    quick = [found for found in read_fast(*real_lines) if found is not None]
    if any(map(is_text, real_lines)):
        assert quick == []  # the text format of old brokers
    else:
        assert len(requests) > len(quick) > len(requests) / 2  # it leaves client ids with a backslash
    assert all(found in (None, read_line(line)) for line, found in zip(real_lines, read_fast(*real_lines), strict=True))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["unknown", "", '"', "\\", "}}"]
)
NUMBERS = st.integers(-1, 100_000)
DOCUMENTS = st.builds(
    document,
    isForwarded=st.booleans(),
    requestApiKey=NUMBERS | st.booleans() | st.none(),
    requestApiVersion=NUMBERS,
    correlationId=st.integers(-(2**31), 2**31 - 1),
    clientId=TEXTS | st.none() | st.integers(),
    request=st.dictionaries(TEXTS, TEXTS, max_size=2),
    principal=TEXTS | st.none(),
    listener=TEXTS,
    softwareName=TEXTS,
    softwareVersion=TEXTS,
)
HEADS = st.sampled_from(
    [
        "[2026-11-22 21:08:39,958] DEBUG",
        "2026-11-22T21:08:39,958 INFO",
        "2026-02-30T21:08:39,958 DEBUG",
        "[2026-11-22 25:08:39,958] DEBUG",
        "[2026-11-22 21:08:39] DEBUG",
        "",
    ]
)


@given(st.lists(st.builds(line_of, DOCUMENTS, HEADS), max_size=4), st.integers(0, 2000), st.sampled_from([0, 1]))
@example([line_of(document()), line_of(document())], 200, 1)
def test_both_ways_agree_on_every_line(lines: list[str], end: int, joined: int):
    """Fields may hold anything, a line may be cut anywhere, and the next line may follow without a line break."""
    if lines:
        lines[0] = lines[0][:end]
    if joined:
        lines = ["".join(lines)]
    for line, found in zip(lines, read_fast(*lines), strict=True):
        assert found in (None, read_line(line))


GOOD = line_of(document(softwareVersion="unknown"))
BODIES = range(GOOD.index("{", GOOD.index('"request":')), GOOD.index('},"connection"') + 2)  # with their braces
PLACES = st.integers(0, len(GOOD)).filter(lambda place: place not in BODIES)


@given(PLACES, st.integers(0, 3), st.sampled_from(["", *'"\\{}[],:.-+ 0Ee1x\x00\x7fé\u2028', "null", "E5", "\\u0041"]))
def test_both_ways_agree_on_a_damaged_head_or_tail(place: int, lost: int, added: str):
    """Some characters are lost, and others are in their place. Only the reference reads the bodies."""
    line = GOOD[:place] + added + GOOD[place + lost :]
    (found,) = read_fast(line)
    assert found in (None, read_line(line))


@pytest.mark.parametrize("length", [400, 800, 2000])
def test_a_longer_text_is_for_the_full_parser(length: int):
    """The fast path looks at some hundred bytes at both ends of a line."""
    lines = [line_of(document(**{field: "x" * length})) for field in ("clientId", "principal", "softwareName")]
    for line, found in zip(lines, read_fast(*lines), strict=True):
        assert found in (None, read_line(line))
    assert length < 500 or read_fast(*lines) == [None] * 3


def head_of(line: str) -> str:
    return line[: line.index('"request":{') + len('"request":{"re')]


def test_a_second_request_hides_no_other_line_of_its_batch():
    """The lines of a batch are searched together first, and one by one where there is a request too many."""
    good, joined = line_of(document()), head_of(line_of(document(clientId="cut"))) + line_of(document())
    text = line_of(document(request={"text": "Completed request:"}))
    read = read_line(good)
    assert read_fast(good, joined, good, text, TEXT) == [read, None, read, None, None]


@pytest.mark.parametrize("before", range(len("Completed request:") + 1))
def test_a_second_request_is_found_between_two_parts_of_a_batch(before: int):
    """The text of a batch is searched in parts of 64 KB, and the first request of the line may lie across two."""
    joined = head_of(line_of(document(clientId="cut"))) + line_of(document())
    length = 2**16 - before - joined.index("Completed request:")
    empty = len(line_of(document(request={"text": ""})))
    first = line_of(document(request={"text": "x" * (length - empty)}))
    assert len(first) == length
    assert read_fast(first, joined) == [read_line(first), None]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", reasons.EMPTY),
        (" \t", reasons.EMPTY),
        ("\ufffd\x00 garbage", reasons.NO_REQUEST),
        ("[2026-11-22 21:08:39,958] INFO [GroupCoordinator 1]: Loaded (kafka.coordinator)", reasons.NO_REQUEST),
        (line_of(document())[:300], reasons.CUT),
        (line_of(document(), head="21:08 DEBUG"), reasons.UNKNOWN_LAYOUT),
        (line_of(document(), head="[2026-02-30 21:08:39,958] DEBUG"), reasons.WRONG_FIELDS),
        (line_of(document(requestApiVersion="16")), reasons.WRONG_FIELDS),
        (line_of(document(requestApiKey=True)), reasons.WRONG_FIELDS),
        (line_of(document(requestApiKey=2**31)), reasons.WRONG_FIELDS),
        (line_of(document(requestApiKey=-5)), reasons.WRONG_FIELDS),
        (line_of(document(requestApiVersion=-1)), reasons.WRONG_FIELDS),
        (line_of(document(clientId="half")).replace("half", r"\ud800"), reasons.WRONG_FIELDS),
        (line_of(document(clientInformation=[])), reasons.WRONG_FIELDS),
        (line_of({}), reasons.WRONG_FIELDS),
        ("[2026-11-22 21:08:39,958] DEBUG Completed request:" + "[" * 100_000, reasons.CUT),
        ("[2026-11-22 21:08:39,958] DEBUG Completed request:" + "9" * 10_000, reasons.CUT),
        (TEXT, reasons.TEXT_LOG),
        (TEXT_BEFORE_1, reasons.TEXT_LOG),
        (TEXT[:60], reasons.TEXT_LOG),
        (TEXT[: TEXT.index("Header(")], reasons.TEXT_LOG),
        (TEXT[TEXT.index(", correlationId") :], reasons.TEXT_LOG),  # behind a line break in the client id
        (TEXT[:200] + TEXT, reasons.TEXT_LOG),
        (TEXT.replace("2026-11-22 21:08:39,958", "21:08"), reasons.TEXT_LOG),
        (TEXT_BEFORE_1[: TEXT_BEFORE_1.index("i_key")], reasons.TEXT_LOG),
        (TEXT_BEFORE_1[: TEXT_BEFORE_1.index("api_key")], reasons.CUT),
        ("[2026-11-22 21:08:39,958] DEBUG Completed request:Name: FetchRequest; Version: 3", reasons.TEXT_LOG),
    ],
)
def test_a_line_that_is_no_request_has_a_reason(line: str, reason: str):
    """The quarantine says it, so that an operator knows what to do about the line."""
    assert read_line(line) == reason
    assert read_fast(line) == [None]


def test_a_day_that_does_not_exist_leaves_the_other_lines_readable():
    """Arrow's kernel refuses the whole batch, which the full parser then reads."""
    good: Any = line_of(document())
    bad = line_of(document(), head="[2026-02-30 21:08:39,958] DEBUG")
    assert read_fast(good, bad) == [None, None]
    assert isinstance(read_line(good), LoggedRequest)


@pytest.mark.parametrize("prefix", ["", "User:"])
def test_a_principal_of_iam_on_msk_is_one_client_on_all_its_connections(prefix: str):
    """Its name goes on with the connection and a UUID."""
    name = f"{prefix}[IAM]:[arn:aws:sts::1:assumed-role/app/x]"
    whole = f"{name}:[INTERNAL_IP-10.0.0.1:9098-13]:[0b7c2a6e-7c5f-4a0e-9c1d-3a1e5b7f9d11]"
    found = read_line(line_of(document(principal=whole)))
    assert isinstance(found, LoggedRequest)
    assert found.principal == name
    assert read_fast(line_of(document(principal=whole))) == [found]
    other = f"{prefix}[IAM]:[a"
    found = read_line(line_of(document(principal=other)))
    assert isinstance(found, LoggedRequest)
    assert found.principal == other


def test_braces_that_end_a_request_early_make_it_cut():
    """Its tail is behind them: the line is damaged, and its fields are not wrong."""
    line = line_of(document()).replace('"throttleTimeMs":0', '"throttleTimeMs":0}]')
    assert read_line(line) == reasons.CUT
    assert read_line(line_of(document(principal=7))) == reasons.WRONG_FIELDS


def test_a_blank_behind_the_marker_is_no_damage():
    """What collects lines may join them with one."""
    line = line_of(document())
    assert read_line(line.replace("request:", "request: ")) == read_line(line)

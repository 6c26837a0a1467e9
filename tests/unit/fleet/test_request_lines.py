"""One line of the request log, and many at once: both ways of reading give the same answer."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence import reasons  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.cut_lines import read_head  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.envelopes import unwrap  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.fast_path import read_lines  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.one_line import read_line  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import LoggedRequest  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.text_format import is_of_text_log  # noqa: E402 - likewise


def text_line(client: str = "audit", principal: str = "User:audit", software: str = "") -> str:
    """Return a line as brokers before 2.8 log it."""
    return (
        f"[2026-11-22 21:08:39,958] DEBUG Completed request:RequestHeader(apiKey=METADATA, apiVersion=9, "
        f"clientId={client}, correlationId=2) -- {{topics=[]}},response:{{topics=[]}} from connection "
        f"127.0.0.1:9092-127.0.0.1:50000-1;totalTime:16.341,requestQueueTime:0.1,throttleTime:0,"
        f"securityProtocol:SSL,principal:{principal},listener:SSL{software} (kafka.request.logger)"
    )


def line_before_1(client: str = "audit", principal: str = "User:audit", listener: str = ",listener:SSL") -> str:
    """Return a line as brokers before 1.0 log it."""
    return (
        f"[2026-11-22 21:08:39,958] DEBUG Completed request:{{api_key=3,api_version=4,correlation_id=2,"
        f"client_id={client}}} -- {{topics=[]}} from connection 127.0.0.1:9092-127.0.0.1:50000;totalTime:16.341000,"
        f"requestQueueTime:0.1,sendTime:0,securityProtocol:SSL,principal:{principal}{listener} (kafka.request.logger)"
    )


def fast(*lines: str) -> list[LoggedRequest | None]:
    """Read lines with Arrow's kernels; None stands for a line that is left to the full parser."""
    rows = read_lines(pa.array(lines, pa.string())).rows()
    return [None if row is None else LoggedRequest(**row) for row in rows.to_pylist()]


def is_text(line: str) -> bool:
    """Return whether a broker wrote a request as text."""
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
    assert fast(line)[0] in {read, None}
    assert (fast(line)[0] is None) == (host is None or "%" in host)


def test_the_line_of_a_forwarded_request_has_the_connection_of_a_broker():
    """The address of the client is in the line of that broker."""
    line = line_of(document(isForwarded=True))
    assert [getattr(read, "client_host", "") for read in (read_line(line), *fast(line))] == [None, None]


@pytest.mark.parametrize("line", [text_line(), line_before_1(), line_before_1(listener="")])
def test_a_line_of_an_old_broker_says_from_where_its_connection_came(line: str):
    """Before 1.0 a connection has no index."""
    assert isinstance(read := read_line(line), LoggedRequest)
    assert read.client_host == "127.0.0.1"


def test_a_line_of_an_old_broker_says_the_same(real_lines: Sequence[str]):
    """The client id has a quote, a backslash and what follows a client id in the text format."""
    found = [read for line in real_lines if isinstance(read := read_line(line), LoggedRequest)]
    assert {(read.client_id, read.api_key, read.version) for read in found} >= {("ancient", 3, 0)}
    (odd,) = {read.client_id for read in found if "bill" in (read.client_id or "")}
    assert '"ing' in str(odd) or ",client_id=" in str(odd)
    old = any(is_text(line) and "softwareName" not in line for line in real_lines)
    assert ("2.16.1-rdkafka-2.16.0" in {read.software_version for read in found}) is not old
    assert {read.principal for read in found} == {"User:ANONYMOUS"}
    assert {read.listener for read in found} & {"CLIENT", "PLAINTEXT", None}  # 0.10.0 names none
    assert {read_line(line) for line in real_lines if "Completed request:" in line} == set(found)


@pytest.mark.parametrize(
    ("client", "principal", "software"),
    [
        ("audit", "User:audit", ",clientInformation:ClientInformation(softwareName=sarama, softwareVersion=1.2)"),
        (
            "a, correlationId=1",
            "User:CN=a,OU=b, C=DE",
            ",clientInformation:ClientInformation(softwareName=sarama, softwareVersion=1.2)",
        ),
        ("from connection x", "User:audit", ""),
    ],
)
def test_texts_of_an_old_broker_may_hold_commas(client: str, principal: str, software: str):
    """The broker does not quote them."""
    found = read_line(text_line(client, principal, software))
    assert isinstance(found, LoggedRequest)
    expected = ("sarama", "1.2") if software else (None, None)
    assert (found.client_id, found.principal, found.listener) == (client, principal, "SSL")
    assert (found.software_name, found.software_version) == expected


@pytest.mark.parametrize(
    ("client", "principal"),
    [("audit", "User:audit"), ("a,client_id=b}", "User:CN=a,OU=b, C=DE"), ("x", "User:a,listener:b")],
)
def test_texts_of_a_broker_before_1_0_may_hold_commas(client: str, principal: str):
    """Their header is another one, and it has the number of the API."""
    found = read_line(line_before_1(client, principal))
    assert isinstance(found, LoggedRequest)
    assert (found.client_id, found.principal, found.listener) == (client, principal, "SSL")
    assert (found.api_key, found.version, found.software_name) == (3, 4, None)


def test_a_broker_before_0_10_2_names_no_listener():
    """Its listeners have no names (KIP-103)."""
    found = read_line(line_before_1("null", listener=""))
    assert isinstance(found, LoggedRequest)
    assert (found.client_id, found.principal, found.listener) == (None, "User:audit", None)


def test_0_10_0_spells_fetch_by_itself(real_lines: Sequence[str]):
    """The Scala classes from before the protocol was generated; ControlledShutdown has its own text up to 0.11."""
    spelled = [line for line in real_lines if "Completed request:Name: " in line]
    found = {(read.api_key, read.client_id) for line in spelled if isinstance(read := read_line(line), LoggedRequest)}
    assert found <= {(1, "audit"), (7, None)}
    assert bool(spelled) is any("request:{api_key=" in line for line in real_lines)
    assert len(found) == len({line.partition("Name: ")[2].partition(";")[0] for line in spelled})


def test_a_client_that_did_not_say_its_software_has_none():
    """Kafka logs the word unknown in place of both."""
    found = read_line(line_of(document(softwareName="unknown", softwareVersion="unknown")))
    assert isinstance(found, LoggedRequest)
    assert (found.software_name, found.software_version) == (None, None)


def test_both_ways_read_what_real_brokers_wrote(real_lines: Sequence[str]):
    """The fast path reads most lines, and what it reads is what the full parser reads."""
    requests = [found for line in real_lines if isinstance(found := read_line(line), LoggedRequest)]
    quick = [found for found in fast(*real_lines) if found is not None]
    if any(map(is_text, real_lines)):
        assert quick == []  # the text format of old brokers
    else:
        assert len(requests) > len(quick) > len(requests) / 2  # it leaves client ids with a backslash
    assert all(found in (None, read_line(line)) for line, found in zip(real_lines, fast(*real_lines), strict=True))


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
    for line, found in zip(lines, fast(*lines), strict=True):
        assert found in (None, read_line(line))


GOOD = line_of(document(softwareVersion="unknown"))
BODIES = range(GOOD.index("{", GOOD.index('"request":')), GOOD.index('},"connection"') + 2)  # with their braces
PLACES = st.integers(0, len(GOOD)).filter(lambda place: place not in BODIES)


@given(PLACES, st.integers(0, 3), st.sampled_from(["", *'"\\{}[],:.-+ 0Ee1x\x00\x7fé\u2028', "null", "E5", "\\u0041"]))
def test_both_ways_agree_on_a_damaged_head_or_tail(place: int, lost: int, added: str):
    """Some characters are lost, and others are in their place. Only the reference reads the bodies."""
    line = GOOD[:place] + added + GOOD[place + lost :]
    (found,) = fast(line)
    assert found in (None, read_line(line))


@pytest.mark.parametrize("length", [400, 800, 2000])
def test_a_longer_text_is_for_the_full_parser(length: int):
    """The fast path looks at some hundred bytes at both ends of a line."""
    lines = [line_of(document(**{field: "x" * length})) for field in ("clientId", "principal", "softwareName")]
    for line, found in zip(lines, fast(*lines), strict=True):
        assert found in (None, read_line(line))
    assert length < 500 or fast(*lines) == [None] * 3


def head_of(line: str) -> str:
    """Return a line that was cut within the body of its request."""
    return line[: line.index('"request":{') + len('"request":{"re')]


def test_a_second_request_hides_no_other_line_of_its_batch():
    """The lines of a batch are searched together first, and one by one where there is a request too many."""
    good, joined = line_of(document()), head_of(line_of(document(clientId="cut"))) + line_of(document())
    text = line_of(document(request={"text": "Completed request:"}))
    read = read_line(good)
    assert fast(good, joined, good, text, text_line()) == [read, None, read, None, None]


@pytest.mark.parametrize("before", range(len("Completed request:") + 1))
def test_a_second_request_is_found_between_two_parts_of_a_batch(before: int):
    """The text of a batch is searched in parts of 64 KB, and the first request of the line may lie across two."""
    joined = head_of(line_of(document(clientId="cut"))) + line_of(document())
    length = 2**16 - before - joined.index("Completed request:")
    empty = len(line_of(document(request={"text": ""})))
    first = line_of(document(request={"text": "x" * (length - empty)}))
    assert len(first) == length
    assert fast(first, joined) == [read_line(first), None]


def test_a_cut_line_and_the_next_one_make_no_request_together():
    """The head of one request and the tail of another would name a client that did not send it."""
    cut = head_of(line_of(document(clientId="innocent", requestApiVersion=0)))
    joined = cut + line_of(document(clientId="audit"))
    assert fast(joined) == [None]
    assert read_line(joined) == reasons.CUT


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
        (text_line()[:90], reasons.CUT),
        (text_line()[:200], reasons.CUT),
        (text_line() + " and more", reasons.CUT),
        (text_line()[:200] + text_line(), reasons.CUT),
        (text_line().replace("METADATA", "TELEPORT"), reasons.WRONG_FIELDS),
        (text_line().replace("apiVersion=9", "apiVersion=99999"), reasons.WRONG_FIELDS),
        (text_line().replace("apiVersion=9", "apiVersion=-9"), reasons.WRONG_FIELDS),
        (text_line().replace("2026-11-22", "2026-02-30"), reasons.WRONG_FIELDS),
        ("[2026-11-22 21:08:39,958] DEBUG Completed request:{api_key=3,api_version=1}", reasons.CUT),
        (line_before_1()[:90], reasons.CUT),
        (line_before_1()[:200], reasons.CUT),
        (line_before_1() + " and more", reasons.CUT),
        (line_before_1(listener="") + " and more", reasons.CUT),
        (line_before_1(listener=",listener:SSL)"), reasons.CUT),
        (text_line().replace(",listener:SSL", ""), reasons.CUT),
        (line_before_1()[:200] + line_before_1(), reasons.CUT),
        (line_before_1()[:200] + text_line(), reasons.CUT),
        (line_before_1().replace("api_key=3", "api_key=99999"), reasons.WRONG_FIELDS),
        (line_before_1().replace("api_version=4", "api_version=99999"), reasons.WRONG_FIELDS),
    ],
)
def test_a_line_that_is_no_request_has_a_reason(line: str, reason: str):
    """The quarantine says it, so that an operator knows what to do about the line."""
    assert read_line(line) == reason
    assert fast(line) == [None]


def test_a_day_that_does_not_exist_leaves_the_other_lines_readable():
    """Arrow's kernel refuses the whole batch, which the full parser then reads."""
    good: Any = line_of(document())
    bad = line_of(document(), head="[2026-02-30 21:08:39,958] DEBUG")
    assert fast(good, bad) == [None, None]
    assert isinstance(read_line(good), LoggedRequest)


@pytest.mark.parametrize("prefix", ["", "User:"])
def test_a_principal_of_iam_on_msk_is_one_client_on_all_its_connections(prefix: str):
    """Its name goes on with the connection and a UUID, in each format of a line."""
    name = f"{prefix}[IAM]:[arn:aws:sts::1:assumed-role/app/x]"
    whole = f"{name}:[INTERNAL_IP-10.0.0.1:9098-13]:[0b7c2a6e-7c5f-4a0e-9c1d-3a1e5b7f9d11]"
    for line in (line_of(document(principal=whole)), text_line(principal=whole), line_before_1(principal=whole)):
        found = read_line(line)
        assert isinstance(found, LoggedRequest)
        assert found.principal == name
        assert fast(line) in ([found], [None])
    assert fast(line_of(document(principal=whole))) != [None]
    other = f"{prefix}[IAM]:[a"
    found = read_line(line_of(document(principal=other)))
    assert isinstance(found, LoggedRequest)
    assert found.principal == other


def test_braces_that_end_a_request_early_make_it_cut():
    """Its tail is behind them: the line is damaged, and its fields are not wrong."""
    line = line_of(document()).replace('"throttleTimeMs":0', '"throttleTimeMs":0}]')
    assert read_line(line) == reasons.CUT
    assert read_line(line_of(document(principal=7))) == reasons.WRONG_FIELDS


@pytest.mark.parametrize("line_of_text", [text_line, line_before_1])
def test_a_line_break_in_a_client_id_cuts_the_request(line_of_text: Callable[[str], str]):
    """The head says which version of which API, also without what stands behind the client id; the tail is not lost."""
    first, last = line_of_text("a\nb").split("\n")
    for line in (first, last):
        assert read_line(line) == reasons.CUT
        assert is_of_text_log(line)
    head = read_head(unwrap(first))
    assert head is not None
    assert (head.api_key, head.version, head.client_id) == (3, 9 if "RequestHeader" in first else 4, "a")
    assert read_head(unwrap(line_of_text("a\nb"))) == head  # one text of a shipper
    assert read_head(unwrap(last)) is None
    assert not is_of_text_log(line_of(document(clientId=first)))

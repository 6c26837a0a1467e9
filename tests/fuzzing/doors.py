"""The doors of the package at which bytes of a peer come in."""

import asyncio
import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from builders import broker, deaf, view
from fleet_lines import read_line
from fleet_rows import lines_of, read_fast
from golden_frames import GOLDEN, MESSAGES
from starlette.applications import Starlette

from featuregate import View, parse
from featuregate.clients.requirements_files import requirements_in
from featuregate.config.jaas import parse_jaas
from featuregate.config.properties_file import read_properties
from featuregate.config.settings import Settings
from featuregate.errors import ConfigError, RemoteWireError, RequirementError, UsageReportError, ViewJsonError
from featuregate.gating.burn_in import why_waiting
from featuregate.gating.holds import Hold
from featuregate.gating.latch_documents import latch_document
from featuregate.gating.latches import BurnIn, LatchedGate, LatchKey, LatchState
from featuregate.polling.hold_sources import HoldSources
from featuregate.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from featuregate.sources.relay_responses import holds_from_json, latched_from_json, with_latched
from featuregate.sources.seen import Seen, cluster_of
from featuregate.testing import StaticFeatures, release_view
from featuregate.usage.report import ReportedGate, Reporter, UsageReport
from featuregate.wire.frames import read_request_header, read_response_body
from featuregate.wire.message import Request
from featuregate_confluent.latch.group_agreement import GroupLatch, GroupLatchState
from featuregate_confluent.latch.latch_records import (
    KeptRecords,
    group_records_of,
    group_state_of,
    key_prefix,
    records_of,
    state_of,
)
from featuregate_fleet.evidence.batches import parse_files
from featuregate_fleet.evidence.file_parser import FileText
from featuregate_fleet.evidence.lines.request import MARKER
from featuregate_fleet.evidence.paths import LogFile
from featuregate_fleet.evidence.reasons import CUT
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_fleet.files.pieces import Piece, pieces_of
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.config.relay import ConfigMistakes, read_config
from fuzzing.door import Door
from fuzzing.mutants import of_bytes, of_json, of_words

DATA = Path(__file__).parents[1] / "data"
NAMES = sorted(MESSAGES)
PREFIX = key_prefix("orders", "c")


@cache
def folder() -> Path:
    return Path(mkdtemp(prefix="fuzzing-"))


def file_with(data: bytes, name: str) -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


# ---------------------------------------------------------------------- operators
def read_holds(data: bytes) -> None:
    HoldSources({}, file_with(data, "holds")).read().widened(["eos-v2", "zstd"]).why("eos-v2")


def read_latches(data: bytes) -> None:
    """Read records of a topic of latches, a line each with its value behind a tab, and decide by what they hold."""
    kept = KeptRecords(PREFIX)
    for line in data.split(b"\n"):
        key, tab, value = line.partition(b"\t")
        kept.take(PREFIX + key, value if tab else None)
    state = state_of("orders", "c", kept.records()).state
    json.dumps(latch_document(state))
    for counted in state.burn_ins.values():
        why_waiting(counted, 60.0, 1e9)
    group_state_of("orders", GroupLatch("c", "billing", "eos", "group.version>=1"), kept.records())


def latch_topics() -> list[bytes]:
    gate = LatchedGate(gate="eos", requirement="group.version>=1", opened_at=1.5, epoch=3)
    burn_in = BurnIn(gate="slow", requirement="group.version>=1", attempt=2, seconds=60.0, since=1.5)
    state = LatchState(cluster_id="c", levels={"f": 1}, gates={gate.key: gate}, burn_ins={burn_in.key: burn_in})
    group = group_records_of(
        "orders", GroupLatch("c", "billing", "eos", "group.version>=1"), GroupLatchState({"m": "ready"}, 1.0)
    )
    records = {**records_of("orders", state), **group}
    return [b"\n".join(key.removeprefix(PREFIX) + b"\t" + value for key, value in records.items())]


def hold_files() -> list[bytes]:
    return [b"# frozen\neos-v2: INC-12\nkip848\n", b'\xef\xbb\xbf- "eos-v2": wait\n*\n']


# ---------------------------------------------------------------------- brokers
def read_message(data: bytes) -> None:
    if len(data) < 2:
        return
    message = MESSAGES[NAMES[data[0] % len(NAMES)]]
    lowest, highest = message.VERSIONS
    version = lowest + data[1] % (highest - lowest + 1)
    if issubclass(message, Request):
        body = read_request_header(data[2:], {message.API_KEY: message})[1]
    else:
        body = read_response_body(data[2:], message, version)  # type: ignore[arg-type]
    message.decode(version, body)


def frames() -> list[bytes]:
    return [
        bytes([NAMES.index(each.message.__name__), each.version - each.message.VERSIONS[0]]) + each.frame
        for each in GOLDEN
    ]


TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


def read_record(data: bytes) -> None:
    if len(data) < 3:
        return
    end = 3 + int.from_bytes(data[1:3], "big")
    TOPICS[data[0] % len(TOPICS)].decode(data[3:end], data[end:])


def records() -> list[bytes]:
    number = {topic.topic: number for number, topic in enumerate(TOPICS)}
    found = []
    for sample in json.loads((DATA / "records" / "4.4.0.json").read_text(encoding="utf-8")):
        key, value = bytes.fromhex(sample["key_bytes"]), bytes.fromhex(sample["value_bytes"])
        found.append(bytes([number[sample["topic"]]]) + len(key).to_bytes(2, "big") + key + value)
    return found


# ---------------------------------------------------------------------- relays and their clients
LOOP = cache(asyncio.new_event_loop)


@cache
def relay() -> Starlette:
    features = StaticFeatures(release_view("4.2"))
    gates = (features.gate("groups", "group.version>=1"),)
    return make_app({"a": PolledCluster(features, gates)}, floor_seconds=0)


def serve_request(data: bytes) -> None:
    """Let a relay answer a request, as its server hands it over. Whoever sent it has gone."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    path, _, query = target.partition(b"?")
    fields = [line.partition(b":") for line in lines]
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    scope = {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": path.decode("utf-8", "replace"),
        "root_path": "",
        "query_string": query,
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in fields],
    }
    LOOP().run_until_complete(relay()(scope, receive, send))
    assert len(statuses) == 1, statuses
    assert statuses[0] in {200, 304, 400, 404, 405, 413, 503}, statuses


TOKEN = Seen(cluster=cluster_of("x"), epoch=5, seen_at=1.5, latched=frozenset(["0" * 12])).text.encode()
REQUESTS = (
    b"GET /v1/clusters/a/view?notOlderThan=0.5&seen=%b\nAccept-Encoding: gzip" % TOKEN,
    b"GET /v1/clusters/a/view?wait=1&revision=a\nIf-None-Match: *",
    b"GET /v1/clusters/a/check?require=kip848\nAccept: text/html",
    b"GET /v1/clusters/a/events\nLast-Event-ID: %b" % TOKEN,
    b'POST /v1/clusters/a/ofrep/v1/evaluate/flags\nIf-None-Match: W/"%b"\n\n{"context": {"targetingKey": "a"}}' % TOKEN,
    b"GET /clusters/a?notOlderThan=1&seen=%b\nAccept: text/html" % TOKEN,
    b"GET /readyz?max-age=300",
)
HTTP_WORDS = (
    *(b"\n", b"\r", b": ", b"\x00", b"\xff", b"HEAD", b"POST", b"OPTIONS", b"Upgrade: h2c\n", b"If-None-Match: "),
    *(b"99999999999999999999", b"-1", b"nan", b"inf", b"1e309", b"%00", b"&", b"=", b"/", b";", b"*", b"../", b"W/"),
)


def requests() -> list[bytes]:
    return list(REQUESTS)


def read_view(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    latched_from_json(text)
    holds_from_json(text)
    View.from_json(text).to_json()


def views() -> list[bytes]:
    few = view(broker(1), broker(2, epoch=11, group=1), deaf(3)).to_json()
    latched = with_latched(
        few, [LatchKey("a", "group.version>=1"), LatchKey("b", "transaction.version>=2")], [Hold("c", "INC-12", "f")]
    )
    return [few.encode(), latched.encode()]


def reports() -> list[bytes]:
    gate = ReportedGate(
        name="a",
        requirement="transaction.version>=2",
        policy="sticky",
        state="held",
        latched=True,
        levels={"transaction.version": 1},
    )
    report = UsageReport(
        reporter=Reporter("orders", "pod-1", "featuregate", "0.1.0"),
        reported_at=1700000000.5,
        cluster_id="c",
        epoch=5613,
        age_seconds=2.25,
        gates=(gate, gate),
    )
    return [report.to_json().encode()]


# ---------------------------------------------------------------------- log files of the fleet
def log_lines() -> list[bytes]:
    found = []
    for path in sorted((DATA / "request_logs").glob("*.log")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines[:: max(1, len(lines) // 12)]:
            message = {"@timestamp": "2026-11-22T21:08:34.881Z", "level": "DEBUG", "message": line}
            docker = {"log": f"{line}\n", "stream": "stdout", "time": "2026-11-22T21:08:34.881000000Z"}
            found += [line, f"2026-11-22T21:08:34.881000000Z stdout F {line}", json.dumps(message), json.dumps(docker)]
    return [line.encode()[:8000] for line in found]


def read_log_line(data: bytes) -> None:
    """Read a line in full and by the fast path: the same, but that the fast path skips bodies, broken ones too."""
    line = data.decode("utf-8", "replace").replace("\n", " ")
    full = read_line(line)
    for fast in read_fast(line, line):
        if fast is None or (full == CUT and line.count(MARKER) == 1):
            continue
        assert fast == full, f"the fast path reads {fast}, and the full parser {full}"


def read_log_file(data: bytes) -> None:
    """Read a file, also a compressed one: its first byte says which."""
    name = ("a.log", "a.log.gz", "a.json")[data[0] % 3] if data else "a.log"
    (folder() / "1").mkdir(exist_ok=True)
    path = file_with(data[1:], f"1/{name}")
    file = LogFile(path.as_uri(), f"1/{name}", "1", len(data) - 1 if data else 0)
    packed = data[1:3] == b"\x1f\x8b"
    for batch in parse_pieces(pieces_of(Piece(file, end=None if packed else file.size))):
        batch.validate(full=True)


def log_files() -> list[bytes]:
    import gzip  # noqa: PLC0415 - here alone

    lines = log_lines()
    texts = [b"\n".join(lines[start : start + 6]) + b"\n" for start in range(0, len(lines), 6)]
    return [b"\x00" + text for text in texts] + [b"\x01" + gzip.compress(text, mtime=0) for text in texts[:5]]


def read_events(data: bytes) -> None:
    """Read a file of broker 1 that may have several events in a line: each line of it, and each event, is counted."""
    file = LogFile("file:/l/1/a", "1/a", "1", len(data))
    tables = pa.Table.from_batches(parse_files([FileText(file, lines_of(data))]))
    counts = {name: pc.sum(pc.struct_field(tables["source"], name)).as_py() for name in ("read", "rows", "quarantined")}
    lines = len([line for line in data.split(b"\n") if line.strip()])
    assert counts["read"] == counts["rows"] + counts["quarantined"] >= lines, counts
    assert (pc.sum(pc.struct_field(tables["usage"], "count")).as_py() or 0) <= counts["rows"]


def events() -> list[bytes]:
    found = []
    for first, second in pairwise(line.decode() for line in log_lines()[:40:4]):
        time, nanos = "2026-11-22T21:08:34.881Z", "1795381714881000000"
        objects = [{"@timestamp": time, "message": each} for each in (first, second)]
        found += [
            {"messageType": "DATA_MESSAGE", "logEvents": [{"timestamp": 1795381714881, **each} for each in objects]},
            {"streams": [{"stream": {"level": "debug"}, "values": [[nanos, first], [nanos, second, {"a": "b"}]]}]},
            {"hits": {"hits": [{"_source": each, "fields": {"message": [each["message"]]}} for each in objects]}},
            {"records": [{"time": time, "properties": json.dumps({"log": each})} for each in (first, second)]},
            {
                "resourceLogs": [
                    {"scopeLogs": [{"logRecords": [{"timeUnixNano": nanos, "body": {"stringValue": first}}]}]}
                ]
            },
            objects,
        ]
    texts = [json.dumps(each) for each in found]
    return [
        text.encode()
        for text in (*texts, "".join(texts[:3]), json.dumps({"log": texts[0]}), json.dumps(found[1], indent=1))
    ]


LOG_WORDS = (
    *(
        b"Completed request:",
        b'{"isForwarded":false,',
        b'"requestHeader":{',
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b"\\",
        b"\\u",
    ),
    *(b"RequestHeader(", b"apiKey=", b"clientId=", b" -- ", b"from connection ", b"principal:", b"securityProtocol:"),
    *(b"DEBUG ", b"INFO ", b"2026-11-22T21:08:34,658", b"9999-99-99 99:99:99,999", b"stdout F ", b"stdout P ", b"\xc3"),
    *(
        b"\n",
        b"\r",
        b"\x00",
        b"\xe2\x80\xa8",
        b"99999999999999999999",
        b"-1",
        b"null",
        b"1e999",
        b"\\ud800",
        b" ",
        b":",
    ),
)


# ---------------------------------------------------------------------- texts and files of configuration
def read_config_file(data: bytes) -> None:
    Settings.parse(read_properties(file_with(data, "client.properties")))


PROPERTIES = (
    b"""bootstrap.servers=a:9092,[::1]:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.username=u
sasl.password=p\\u00fc\\
  q
socket.timeout.ms=1000
# comment
! comment
client.id = a
""",
    b"bootstrap.controllers: a:1\nclient.dns.lookup=use_all_dns_ips\nssl.ca.location=/nowhere\n",
    b"""bootstrap.servers=a:1
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";
""",
)
JAAS = (
    b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b\\"c";',
    b"a.b.OAuthBearerLoginModule required clientId='a' scope=b /* c */ // d\n clientSecret=\"e\" ;",
)
MARKS = (b'"', b"'", b"=", b";", b"\\", b"\\u", b"\\ud800", b":", b",", b"\n", b"/*", b"*/", b"//", b"#", b"\x00", b"[")
REQUIREMENTS = (
    b"kip848 | group.version>=1 & (ConsumerGroupHeartbeat>=0)",
    b"transaction_coordinator>=1 & Fetch in 4..11 | release>=3.9",
    b"transaction.version>=2",
)
TOML = (
    b'[clusters.a]\nconfig = {"bootstrap.servers" = "a:1"}\n[clusters.a.gates]\nx = "group.version>=1"\n',
    b'listen = "127.0.0.1:8080"\n[clusters."b c"]\nconfig."bootstrap.servers" = "a:1,b:2"\nlabels = ["a", 1.5, {}]\n',
)

REQUIREMENTS_FILES = (
    b"confluent-kafka==2.6.0 ; python_version > '3.8'  # a\n-r other.txt\nkafka-python>=2 \\\n  --hash=sha256:00\n",
    b"\xef\xbb\xbfaiokafka @ https://example.org/aiokafka-0.12.0.tar.gz#sha256=0\n-e .\n--index-url https://example.org\n",
    b'version = 1\n[[package]]\nname = "confluent-kafka"\nversion = "2.6.0"\n\n',
    b'{"_meta": {}, "default": {"confluent-kafka": {"version": "==2.6.0"}}, "develop": {}}',
)

DOORS = (
    Door(name="message", enter=read_message, examples=frames, change=of_bytes, documents=(RemoteWireError,)),
    Door(name="record", enter=read_record, examples=records, change=of_bytes, documents=(RemoteWireError,)),
    Door(name="relay request", enter=serve_request, examples=requests, change=of_words(*HTTP_WORDS)),
    Door(name="latch topic", enter=read_latches, examples=latch_topics, change=of_bytes),
    Door(name="hold file", enter=read_holds, examples=hold_files, change=of_bytes),
    Door(name="view", enter=read_view, examples=views, change=of_json, documents=(ViewJsonError,)),
    Door(
        name="usage report",
        enter=UsageReport.from_json,
        examples=reports,
        change=of_json,
        documents=(UsageReportError,),
    ),
    Door(name="log line", enter=read_log_line, examples=log_lines, change=of_words(*LOG_WORDS)),
    Door(name="log file", enter=read_log_file, examples=log_files, change=of_words(*LOG_WORDS)),
    Door(
        name="log events", enter=read_events, examples=events, change=of_words(*LOG_WORDS, b"}{", b"[{", b"]}", b"\\n")
    ),
    Door(
        name="requirements file",
        enter=lambda data: requirements_in(file_with(data, "requirements.txt")),
        examples=lambda: REQUIREMENTS_FILES,
        change=of_words(
            *MARKS,
            b"==",
            b"===",
            b"-r ",
            b"-c ",
            b"[[package]]",
            b"{",
            b"\xff\xfe",
            b"9" * 5000,
            b"${A}",
            b" @ ",
            b".whl",
        ),
        documents=(UnicodeDecodeError,),
    ),
    Door(
        name="requirement",
        enter=lambda data: str(parse(data.decode("utf-8", "replace"))),
        examples=lambda: REQUIREMENTS,
        change=of_words(b"(", b")", b"&", b"|", b">=", b"..", b" serves ", b"9" * 5000, b"kip848", b"-1", b"\x1b"),
        documents=(RequirementError,),
    ),
    Door(
        name="properties",
        enter=read_config_file,
        examples=lambda: PROPERTIES,
        change=of_words(*MARKS, b"9" * 5000, b"1e999", b"nan", b"SASL_SSL", b"GSSAPI", b"OAUTHBEARER"),
        documents=(ConfigError,),
    ),
    Door(
        name="jaas",
        enter=lambda data: parse_jaas("sasl.jaas.config", data.decode("utf-8", "replace")),
        examples=lambda: JAAS,
        change=of_words(*MARKS, b"required", b"username"),
        documents=(ConfigError,),
    ),
    Door(
        name="toml",
        enter=lambda data: read_config(file_with(data, "relay.toml")),
        examples=lambda: TOML,
        change=of_words(*MARKS, b"{", b"]", b"1e999", b"nan", b"9" * 5000, b"1979-05-27", b'"""', b"config", b"tls"),
        documents=(ConfigMistakes,),
    ),
)

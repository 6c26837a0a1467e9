"""What a program without Spark says of evidence: lines by the standard library, records by librdkafka alone."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition
from waiting import eventually

from featuregate.testing import LocalKafka

BEGIN = r"\[?(\d{4}-\d\d-\d\d)[T ]([\d:]+)[,.](\d+)\]? +(\w+) +"
LINE = re.compile(BEGIN + r"Completed request:(\{.*\})( \(kafka\.request\.logger\))?\s*")
CLOSED = re.compile(BEGIN + r"Closing socket for (\S+) because of error \(kafka\.network\.Processor\)")
FAILED = re.compile(BEGIN + r"Exception while processing request from (\S+) \(kafka\.network\.Processor\)")
REFUSED = re.compile(r".*UnsupportedVersionException: Received request for api with key (\d+) .* version (-?\d+)")
"""What brokers of 4.2.0 say of a request that they do not serve: each of two lines, and this one behind it."""
FEATURE = re.compile(
    r"^Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)\s",
    re.MULTILINE,
)
METADATA_VERSIONS = {"3.3-IV3": "7", "4.2-IV1": "29"}
"""The tool prints releases in place of the levels that 4.2.0 supports first and last."""
LEVELS_OF_3_9 = {"kraft.version": range(2), "metadata.version": range(1, 22)}
"""What brokers of 3.9.2 advertise: no other feature, and metadata.version up to 3.9-IV0."""
READ_BY_3_9 = range(3)
"""The types of records that group coordinators of 3.9.2 read: of offsets and classic groups. They skip the others."""
MEMBERS = {5, 10, 19}
"""The types of records of members: of KIP-848, of share groups (KIP-932), and of streams groups (KIP-1071)."""
REQUEST_LOG = re.compile(r"^\s*(root|kafka|kafka\.request\.logger)=(\w+)", re.MULTILINE)


class Seen(NamedTuple):
    count: int
    first: str
    last: str


class Client(NamedTuple):
    outcome: str
    level: str
    api_key: int
    version: int
    client_id: str | None = None
    principal: str | None = None
    listener: str | None = None
    forwarded: bool | None = None
    software_name: str | None = None
    software_version: str | None = None
    client_host: str | None = None


class Said(NamedTuple):
    usage: dict[tuple[str, str, Client], Seen]
    """Requests by broker, hour and client."""
    files: Counter[tuple[str, str]]
    """Lines by the path of their file, or the place of their topic, and by what they are: rows, or quarantined."""
    garbage: Counter[tuple[str, str]]
    """Texts of other lines, by the same path."""


def said_of(lines: Iterable[tuple[str, str, bytes]]) -> Said:
    """Parse lines, each with its path and its broker; those of a path are in order."""
    times: dict[tuple[str, str, Client], list[str]] = {}
    files, garbage = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    before: dict[str, str] = {}
    for path, broker, line in lines:
        text = line.decode(errors="replace")
        last, before[path] = before.get(path, ""), text
        found = request(text) or refusal(last, text)
        understood = found or is_of_refusal(last, text)
        files[path, "rows" if understood else "quarantined"] += 1
        if found:
            time, client = found
            times.setdefault((broker, time[:13], client), []).append(time)
        elif not understood:
            garbage[path, text] += 1
    return Said({who: Seen(len(seen), min(seen), max(seen)) for who, seen in times.items()}, files, garbage)


def request(line: str) -> tuple[str, Client] | None:
    found = LINE.fullmatch(line)
    if found is None:
        return None
    said = json.loads(found[5])
    head, software = said["requestHeader"], said["clientInformation"]
    names = (software[name] for name in ("softwareName", "softwareVersion"))
    return _time(found), Client(
        "completed",
        found[4],
        head["requestApiKey"],
        head["requestApiVersion"],
        head["clientId"],
        said["principal"],
        said["listener"],
        said["isForwarded"],
        *(None if name == "unknown" else name for name in names),
        client_host=None if said["isForwarded"] else host_of(said["connection"]),
    )


def refusal(last: str, line: str) -> tuple[str, Client] | None:
    """Return time and client of a request that a broker has refused, from the first two of its four lines."""
    closed, refused = CLOSED.fullmatch(last), REFUSED.fullmatch(line)
    if not closed or not refused:
        return None
    return _time(closed), Client("refused", closed[4], int(refused[1]), int(refused[2]), client_host=host_of(closed[5]))


def host_of(connection: str) -> str:
    """Return the address of the client of a connection between addresses of version 4."""
    return connection.split("-")[1].rpartition(":")[0]


def is_of_refusal(last: str, line: str) -> bool:
    return bool(
        CLOSED.fullmatch(line) or FAILED.fullmatch(line) or (FAILED.fullmatch(last) and REFUSED.fullmatch(line))
    )


def _time(found: re.Match[str]) -> str:
    return f"{found[1]} {found[2]}.{found[3]}"


class Finding(NamedTuple):
    verdict: str
    client_id: str | None
    principal: str | None
    software: str | None
    versions: tuple[int, ...]
    seen: Seen


def without_old(usage: Mapping[tuple[str, str, Client], Seen], api_key: int, lowest: int) -> set[Finding]:
    found = set[Finding]()
    served = [(client, seen) for (_, _, client), seen in usage.items() if client.outcome == "completed"]
    for who in {(client.client_id, client.principal) for client, _ in served}:
        its = [(client, seen) for client, seen in served if (client.client_id, client.principal) == who]
        of_api = [(client, seen) for client, seen in its if client.api_key == api_key]
        old = [(client, seen) for client, seen in of_api if client.version < lowest]
        versions = tuple(sorted({client.version for client, _ in old}))
        if reported := old or of_api:
            of_whom = (*who, software_of(client for client, _ in reported), versions)
            found.add(Finding("block" if old else "ok", *of_whom, total(seen for _, seen in reported)))
    return found


def software_of(clients: Iterable[Client]) -> str | None:
    programs = {" ".join(filter(None, (client.software_name, client.software_version))) for client in clients}
    return ", ".join(sorted(programs - {""})) or None


class Skipped(NamedTuple):
    verdict: str
    subject: str
    versions: tuple[int, ...]
    count: int


def skipped_by_3_9(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> set[Skipped]:
    """Say which groups have records that 3.9.2 skips, by the first bytes of keys and values: it loses their members."""
    of_groups = {place: end for place, end in ends.items() if place[0] == "__consumer_offsets"}
    last = {(each.partition(), each.key()): each.value() for each in messages(kafka, of_groups)}
    found = defaultdict[str, list[tuple[int, int]]](list)
    for (_, key), value in last.items():
        record_type, length = (int.from_bytes(key[at : at + 2], "big", signed=True) for at in (0, 2))
        if value is not None and record_type not in READ_BY_3_9:
            version = int.from_bytes(value[:2], "big", signed=True)
            found[key[4 : 4 + length].decode()].append((record_type, version))
    skipped = set[Skipped]()
    for group, its in found.items():
        verdict = "warn" if MEMBERS.isdisjoint(record_type for record_type, _ in its) else "block"
        versions = tuple(sorted({version for _, version in its}))
        skipped.add(Skipped(verdict, f"group {group!r}", versions, len(its)))
    return skipped


def levels_in_3_9(kafka: LocalKafka) -> set[tuple[str, str]]:
    names = {number: name for name, number in METADATA_VERSIONS.items()}
    found = set[tuple[str, str]]()
    for feature, _, _, level in levels(kafka):
        if level != "0":
            verdict = "ok" if int(level) in LEVELS_OF_3_9.get(feature, ()) else "block"
            found.add((verdict, f"{feature}={names[level] if feature == 'metadata.version' else level}"))
    return found


def total(parts: Iterable[Seen]) -> Seen:
    of = list(parts)
    return Seen(sum(one.count for one in of), min(one.first for one in of), max(one.last for one in of))


def messages(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> Iterator[Message]:
    config = {
        "group.id": "reference",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    with closing(Consumer(kafka.client_config(config))) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in ends])
        left = set(ends)
        while left:
            # A message is as long as its value, so that a tombstone is false.
            message = eventually(lambda: consumer.poll(0.2), "the topic ends", met=lambda found: found is not None)
            assert message is not None
            place = (message.topic(), message.partition())
            if message.error():
                left.discard(place)
            elif message.offset() <= ends[place]:
                yield message


def records(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for message in messages(kafka, ends):
        value = message.value()
        version = None if value is None else int.from_bytes(value[:2], "big", signed=True)
        found[message.topic(), message.partition(), message.key(), version] += 1
    return found


def reports(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> tuple[Counter[tuple[Any, ...]], int]:
    """Count usage reports by what they say of each gate; return also how many records are none."""
    found, garbage = Counter[tuple[Any, ...]](), 0
    for message in messages(kafka, ends):
        try:
            said = json.loads(message.value())
        except ValueError:
            garbage += 1
            continue
        app = (said["app"], said["instance"], *said["software"].values(), said["cluster_id"], said["closing"])
        for gate in said["gates"]:
            own = (gate["name"], gate["requirement"], gate["policy"], gate["state"], gate["latched"])
            found[*app, *own, json.dumps(gate["levels"])] += 1
        if not said["gates"]:
            found[*app, None, None, None, None, None, None] += 1
    return found, garbage


def levels(kafka: LocalKafka) -> set[tuple[str, str, str, str]]:
    """Return name, lowest, highest and finalized level of each feature, as Kafka's own tool prints them."""
    printed = FEATURE.findall(kafka.kafka_features("describe").stdout)
    return {(name, *(METADATA_VERSIONS.get(level, level) for level in found)) for name, *found in printed}


def log_levels(kafka: LocalKafka, brokers: Iterable[str]) -> dict[str, str]:
    """Return the level of the request log of each broker, as Kafka's own tool prints it."""

    def level(broker: str) -> str:
        options = ["--bootstrap-server", kafka.internal_bootstrap, "--describe", "--all"]
        options += ["--entity-type", "broker-loggers", "--entity-name", broker]
        printed = kafka.run_tool("kafka.admin.ConfigCommand", *options).stdout
        found = dict(REQUEST_LOG.findall(printed))
        return found.get("kafka.request.logger") or found.get("kafka") or found["root"]

    return {broker: level(broker) for broker in brokers}

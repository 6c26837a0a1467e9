"""What a program without Spark says of evidence: lines by the standard library, records by librdkafka alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from confluent_kafka import Message

    from featuregate.testing import LocalKafka

LINE = re.compile(r"\[?(\S+ [\d:,.]+)\]? +(\w+) +Completed request:(\{.*\})( \(kafka\.request\.logger\))?\s*")
FEATURE = re.compile(
    r"^Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)\s",
    re.MULTILINE,
)
METADATA_VERSIONS = {"3.3-IV3": "7", "4.2-IV1": "29"}
"""The tool prints releases in place of the levels that 4.2.0 supports first and last."""
REQUEST_LOG = re.compile(r"^\s*(root|kafka|kafka\.request\.logger)=(\w+)", re.MULTILINE)


class Seen(NamedTuple):
    """How often something was seen, and when."""

    count: int
    first: str
    last: str


class Said(NamedTuple):
    """What a plain program says of lines."""

    usage: dict[tuple[Any, ...], Seen]
    """Requests by broker, hour, client and version."""
    files: Counter[tuple[str, str]]
    """Lines by the path of their file, or the place of their topic, and by what they are: rows, or quarantined."""
    garbage: Counter[tuple[str, str]]
    """Texts of other lines, by the same path."""


def said_of(lines: Iterable[tuple[str, str, bytes]]) -> Said:
    """Parse lines, each with its path and its broker."""
    times: dict[tuple[Any, ...], list[str]] = {}
    files, garbage = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for path, broker, line in lines:
        text = line.decode(errors="replace")
        found = request(text)
        files[path, "rows" if found else "quarantined"] += 1
        if found:
            time, client = found
            times.setdefault((broker, time[:13], *client), []).append(time)
        else:
            garbage[path, text] += 1
    return Said({who: Seen(len(seen), min(seen), max(seen)) for who, seen in times.items()}, files, garbage)


def request(line: str) -> tuple[str, tuple[Any, ...]] | None:
    """Return time, client and version of a request."""
    found = LINE.fullmatch(line)
    if found is None:
        return None
    said = json.loads(found[3])
    head, software = said["requestHeader"], said["clientInformation"]
    names = (software[name] for name in ("softwareName", "softwareVersion"))
    return found[1].replace(",", "."), (
        found[2],
        head["requestApiKey"],
        head["requestApiVersion"],
        head["clientId"],
        said["principal"],
        said["listener"],
        said["isForwarded"],
        *(None if name == "unknown" else name for name in names),
    )


def messages(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> Iterator[Message]:
    """Yield the committed records of partitions up to and with these offsets."""
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
            message = eventually(lambda: consumer.poll(0.2), "the topic ends")
            place = (message.topic(), message.partition())
            if message.error():
                left.discard(place)
            elif message.offset() <= ends[place]:
                yield message


def records(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> Counter[tuple[Any, ...]]:
    """Count the records of coordinators by place, key and version of the value."""
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


def log_level(kafka: LocalKafka, broker: str) -> str:
    """Return the level of the request log of a broker, as Kafka's own tool prints it."""
    options = ["--bootstrap-server", kafka.internal_bootstrap, "--describe", "--all"]
    options += ["--entity-type", "broker-loggers", "--entity-name", broker]
    printed = kafka.run_tool("kafka.admin.ConfigCommand", *options).stdout
    found = dict(REQUEST_LOG.findall(printed))
    return found.get("kafka.request.logger") or found.get("kafka") or found["root"]

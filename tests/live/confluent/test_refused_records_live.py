"""Records that a real broker refuses: each leads to a dead letter, or ends run() with the name of its message."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from eos.pipes import BOUND, SHORT_GROUPS, Pipe
from eos.processors import Running
from waiting import eventually

from featuregate.testing import LocalKafka
from featuregate_confluent import DeadLetter, Record, RecordRefused, SwitchFatal
from featuregate_confluent.events import DeadLettered, TransactionCommitted

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.proof("switch")]

HUGE = b"h" * 1_020_000
"""More than a client sends by default; the topic takes it."""
INPUTS = 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka("4.2.0", properties={**SHORT_GROUPS, "auto.create.topics.enable": "false"}) as cluster:
        yield cluster


def create(pipe: Pipe, name: str, **config: str) -> str:
    """Create a topic of one partition with these properties, and return its name."""
    topic = f"{pipe.source}-{name}"
    properties = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient(dict(pipe.client))
    for created in admin.create_topics([NewTopic(topic, 1, 1, config=properties)]).values():
        created.result(BOUND)
    return topic


def feed(pipe: Pipe, poison: Sequence[bytes]) -> None:
    larger = ConfigEntry("max.message.bytes", "5000000", incremental_operation=AlterConfigOpType.SET)
    alter = ConfigResource(ConfigResource.Type.TOPIC, pipe.source, incremental_configs=[larger])
    admin = AdminClient(dict(pipe.client))
    for altered in admin.incremental_alter_configs([alter]).values():
        altered.result(BOUND)
    producer = Producer({**pipe.client, "message.max.bytes": 5_000_000})
    for number in range(INPUTS):
        producer.produce(pipe.source, b"%d" % number)
        if number < len(poison):
            producer.produce(pipe.source, poison[number])
    assert producer.flush(BOUND) == 0


def records_of(pipe: Pipe, topic: str) -> list[Message]:
    config = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    with Consumer({**pipe.client, **config}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while (message := consumer.consume(1, BOUND)[0]).error() is None:
            found.append(message)
        return found


def micros() -> int:
    """Return the time in microseconds, which a broker takes for a time to come."""
    return int(time.time() * 1e6)  # noqa: TID251 - a timestamp of Kafka


@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_each_kind_of_refused_record_becomes_one_dead_letter(kafka: LocalKafka, model: str) -> None:
    """All other inputs are committed once, and the member goes on."""
    pipe = Pipe.on(kafka, "refused")
    dead, small = create(pipe, "dead"), create(pipe, "small", max_message_bytes="1000")
    compacted = create(pipe, "compacted", cleanup_policy="compact")
    given: dict[bytes, Callable[[], Any]] = {
        b"a dict": lambda: (pipe.sink, {"a": 1}, None),
        b"a header": lambda: Record(pipe.sink, b"v", headers=[("a", 1)]),  # type: ignore[list-item]
        b"a name": lambda: ("bad topic!", b"v", None),
        b"a topic": lambda: ("no-such-topic", b"v"),
        b"a partition": lambda: (pipe.sink, b"v", None, 99),
        b"too large for the client": lambda: (pipe.sink, HUGE),
        b"too large for the topic": lambda: (small, b"v" * 5000),
        b"no key": lambda: (compacted, b"v"),
        b"microseconds": lambda: Record(pipe.sink, b"v", timestamp=micros()),
        HUGE: lambda: (pipe.sink, HUGE),
    }
    feed(pipe, list(given))

    def transform(messages: Sequence[Message]) -> list[Any]:
        return [given.get(each.value() or b"", lambda each=each: (pipe.sink, each.value()))() for each in messages]

    with Running(pipe, transform=transform, poison=DeadLetter(dead), model=model) as one:
        total = INPUTS + len(given)
        eventually(
            lambda: sum(each.messages for each in one.of(TransactionCommitted)) == total or not one.alive,
            "all is committed",
            2 * BOUND,
        )
    assert one.failure is None
    assert sorted(int(each.value() or b"") for each in records_of(pipe, pipe.sink)) == list(range(INPUTS))
    letters = {dict(each.headers() or [])["featuregate.offset"]: each for each in records_of(pipe, dead)}
    assert sorted(map(int, letters)) == [2 * number + 1 for number in range(len(given))]
    assert len(one.of(DeadLettered)) == len(given)
    errors = [event.error for event in sorted(one.of(DeadLettered), key=lambda event: event.offset)]
    names = ["TypeError", "TypeError", "ValueError", "ValueError", "ValueError", *["MSG_SIZE_TOO_LARGE"] * 2]
    for error, name in zip(errors, [*names, "INVALID_RECORD", "INVALID_TIMESTAMP", "MSG_SIZE_TOO_LARGE"], strict=True):
        assert name in error
    assert "message.timestamp.after.max.ms" in errors[-2]
    huge = letters[b"%d" % (2 * len(given) - 1)]
    assert (huge.value(), dict(huge.headers() or [])["featuregate.left_out"]) == (None, b"value (1020000 bytes)")


@pytest.mark.parametrize("poison", ["raise", "dead"])
def test_a_clock_that_brokers_refuse_ends_with_its_name(kafka: LocalKafka, poison: str) -> None:
    """Each topic refuses the time of this host, so that no dead letter helps.

    A millisecond is for the broker: with 0 it may refuse its own mark of the abort, and never complete that.
    """
    pipe = Pipe.on(kafka, "clock")
    sink, dead = (create(pipe, name, message_timestamp_before_max_ms="1") for name in ("out", "dead"))
    feed(pipe, [])
    # Records wait until the offsets are sent, and are too old then.
    options: dict[str, Any] = {"producer": {"linger.ms": 200}}
    options |= {"poison": DeadLetter(dead)} if poison == "dead" else {}
    with Running(pipe, transform=lambda messages: [(sink, each.value()) for each in messages], **options) as one:
        failure = one.ended()
    assert isinstance(failure, RecordRefused if poison == "raise" else SwitchFatal)
    for part in (f"{pipe.source}[0]@0", "INVALID_TIMESTAMP", "message.timestamp.after.max.ms", "this host's clock: 20"):
        assert part in str(failure)
    assert (one.health["status"], one.health["committed"]) == ("failed", 0)


def test_a_topic_for_dead_letters_that_does_not_exist_stops_at_the_start(kafka: LocalKafka) -> None:
    """No message is needed for that. The broker does not create topics."""
    pipe = Pipe.on(kafka, "nowhere")
    with Running(pipe, poison=DeadLetter("no-such-topic")) as one:
        failure = one.ended()
    assert isinstance(failure, SwitchFatal)
    assert "the topic 'no-such-topic' does not exist" in str(failure)

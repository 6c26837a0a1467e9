"""The latch store in a topic, on real brokers."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from topics import create_topics

import featuregate as fg
from featuregate.gating.latches import LatchedGate, LatchState
from featuregate.testing import LocalKafka, check_latch_store
from featuregate_confluent import TopicLatchStore
from featuregate_confluent.latch import latch_records

pytestmark = pytest.mark.live

BOUND = 60.0
KILLS = 50
HOUR = 3600.0
TXN = "TxnOffsetCommit>=2"  # of all releases here
CLUSTER = "4L6g3nShT-eMCtK--X86sw"


OLDER = [pytest.param(release, marks=pytest.mark.proof("switch")) for release in ("2.4.1", "3.9.2")]


@pytest.fixture(scope="module", params=["4.2.0", *OLDER])
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    return shared_kafka(request.param)


@pytest.fixture
def latch_store(kafka: LocalKafka, request: pytest.FixtureRequest) -> TopicLatchStore:
    topic = str(request.node.originalname)
    create_topics(kafka.client_config(), topic, partitions=2, cleanup_policy="compact")
    return TopicLatchStore(kafka.client_config(), app="orders", topic=topic, timeout=BOUND)


def latched(*gates: str) -> LatchState:
    opened = [LatchedGate(gate=gate, requirement=TXN, opened_at=1.0, epoch=1) for gate in gates]
    return LatchState(cluster_id=CLUSTER, gates={each.key: each for each in opened})


@pytest.mark.proof("switch")
def test_a_topic_keeps_the_law(latch_store: TopicLatchStore) -> None:
    """As a folder does."""
    check_latch_store(lambda: latch_store)


def test_invariant_2_a_latch_outlives_the_process_without_a_disk(
    kafka: LocalKafka, latch_store: TopicLatchStore
) -> None:
    """The next process, or a sibling, has the gate open though its own requirement would not hold."""
    with fg.Discoverer(kafka.client_config(), interval=HOUR, latch_store=latch_store) as features:
        assert features.gate("eos", TXN).wait(BOUND)
        cluster_id = features.refresh(BOUND).cluster_id
    assert cluster_id is not None
    state = TopicLatchStore(kafka.client_config(), app="orders", topic=latch_store.topic).load(cluster_id)
    assert state is not None
    assert [gate.gate for gate in state.gates.values()] == ["eos"]
    other = TopicLatchStore(kafka.client_config(), app="payments", topic=latch_store.topic)
    assert other.load(cluster_id) is None


def test_writers_at_once_lose_nothing(kafka: LocalKafka, latch_store: TopicLatchStore) -> None:
    """Each writes a latch of its own; whoever reads then has all."""

    def save(number: int) -> None:
        writer = TopicLatchStore(kafka.client_config(), app="orders", topic=latch_store.topic, timeout=BOUND)
        writer.save(latched(f"gate-{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(16)))
    state = latch_store.load(CLUSTER)
    assert state is not None
    assert {key.gate for key in state.gates} == {f"gate-{number}" for number in range(16)}


def test_invariant_18_damaged_records_and_many_others_stop_nothing_but_themselves(
    kafka: LocalKafka, latch_store: TopicLatchStore
) -> None:
    """Health names them, and the gate latches; 6,000 records of the app are read at each poll."""
    latch_store.save(latched(*(f"gate-{number}" for number in range(3000))))
    cluster_id = fg.discover(kafka.client_config()).cluster_id
    assert cluster_id is not None
    own = latch_records.key_prefix("orders", cluster_id)
    damaged = (own + b"burn-in|slow|group.version%3E%3D1|1|nan", own + b"burn-in|slow|x|1|-1e308", own + b"\xff|a")
    producer = Producer(kafka.client_config())
    for key in (*damaged, b"\xff", b"fg1|others|" + b"x" * 100_000):
        producer.produce(latch_store.topic, b'{"since": -62167219200}', key)
    for number in range(6000):
        producer.produce(latch_store.topic, b"{}", own + f"level|f{number}|1".encode())
        producer.poll(0)
    assert producer.flush(BOUND) == 0
    within = TopicLatchStore(kafka.client_config(), app="orders", topic=latch_store.topic)
    with fg.Discoverer(kafka.client_config(), interval=HOUR, latch_store=within) as features:
        gate = features.gate("eos", TXN, open_after=timedelta(milliseconds=1))
        features.refresh(BOUND)
        features.refresh(BOUND)
        assert gate.open
        assert len(features.latched) >= 6000
        (reason,) = features.health()["reasons"]
        assert reason.count("is damaged") == len(damaged)


WRITER = """
import json, sys
from featuregate.gating.latches import LatchedGate, LatchState
from featuregate_confluent import TopicLatchStore
config, topic, number, cluster = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
latches = TopicLatchStore(config, app="orders", topic=topic, timeout=60)
for each in range(1000):
    gate = LatchedGate(gate=f"{number}-{each}", requirement="TxnOffsetCommit>=3", opened_at=1.0, epoch=1)
    latches.save(LatchState(cluster_id=cluster, levels={"x": each + 1}, gates={gate.key: gate}))
    print(gate.gate, flush=True)
"""


@pytest.mark.proof("switch")
@pytest.mark.parametrize("release", ["2.4.1", "3.9.2", "4.2.0"])
def test_invariant_2_a_killed_writer_loses_nothing_that_it_was_told_is_durable(
    release: str, shared_kafka: Callable[[str], LocalKafka]
) -> None:
    """Five writers at once are killed again and again, while the broker compacts each segment after a moment."""
    kafka, topic = shared_kafka(release), "latches-of-the-killed"
    create_topics(
        kafka.client_config(),
        topic,
        cleanup_policy="compact",
        segment_ms=200,
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=100,
    )
    arguments = [sys.executable, "-c", WRITER, json.dumps(kafka.client_config()), topic]
    acknowledged: set[str] = set()
    for number in range(KILLS // 5):
        writers = [
            subprocess.Popen([*arguments, f"{number}{side}", CLUSTER], stdout=subprocess.PIPE, text=True)
            for side in "abcde"
        ]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged |= {writer.stdout.readline().strip() for _ in range(2)}
            writer.kill()
            acknowledged |= set(writer.stdout.read().split("\n")[:-1])
            writer.wait(BOUND)
            writer.stdout.close()
    state = TopicLatchStore(kafka.client_config(), app="orders", topic=topic, timeout=BOUND).load(CLUSTER)
    assert state is not None
    assert "" not in acknowledged
    assert acknowledged <= {key.gate for key in state.gates}
    assert len(acknowledged) >= KILLS * 2


def test_a_topic_that_is_gone_opens_nothing_and_closes_nothing(kafka: LocalKafka, latch_store: TopicLatchStore) -> None:
    """Health says what is missing, and how to create it."""
    with fg.Discoverer(kafka.client_config(), interval=HOUR, latch_store=latch_store) as features:
        early = features.gate("early", TXN)
        assert early.wait(BOUND)
        admin = AdminClient(kafka.client_config())
        admin.delete_topics([latch_store.topic], operation_timeout=BOUND)[latch_store.topic].result(BOUND)
        features.refresh(BOUND)
        late = features.gate("late", TXN)
        assert (early.open, late.open) == (True, False)
        assert any(
            "does not exist. Create it with cleanup.policy=compact" in why for why in features.health()["reasons"]
        )

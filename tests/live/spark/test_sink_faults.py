"""The Kafka sink under all faults of a Spark cluster and its brokers, and Spark's own sink in comparison.

``SINK_FAULTS=24 pytest tests/live/spark/test_sink_faults.py --log-cli-level=INFO`` is the long run: every kind of
harm three times. On other days there are a few, chosen by the seed of the test run, which its first lines tell.
"""

import itertools
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import psutil
import pytest
from eos.counts import Counts
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from streams.driving import Driving
from streams.job import AFTER, BEFORE, TASK

from featuregate.testing import LocalKafka

logger = logging.getLogger("sink.faults")

KAFKA = "4.2.0"
FAULTS = int(os.environ.get("SINK_FAULTS", "3"))
ROWS = 4_000
"""For each fault."""
RATE = float(os.environ.get("SINK_RATE", "150"))
"""Inputs for each second: less than the job can bear, so that what piled up while it was down goes down again."""
PER_BATCH = 1200
PROGRESS = 2 * PER_BATCH
"""Inputs that have to come out after each fault, before the next one: two batches, so the harmed one too."""

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(2100 + 100 * FAULTS)]

SETTINGS = {
    "spark.task.maxFailures": "8",
    "spark.cores.max": "2",
    # An executor that stands still is given up after this, and its tasks begin elsewhere.
    "spark.network.timeout": "12s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "2s",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka(KAFKA, nodes=3) as cluster:
        yield cluster


class Harm:
    """The faults of a job and its brokers: chosen by a seed, recorded, and survived before the next."""

    def __init__(self, kafka: LocalKafka, ledger: Ledger, job: Driving, seed: int) -> None:
        self.kafka = kafka
        self.ledger = ledger
        self.job = job
        self.chance = random.Random(seed)
        self.counts = Counts([ledger], KAFKA)
        self.done: list[str] = []
        self.kinds: dict[str, Callable[[], None]] = {
            "a task fails": self.task,
            "the driver dies before the batch is written": lambda: self.order(BEFORE),
            "the driver dies after the batch is written": lambda: self.order(AFTER),
            "the driver dies in the middle of a batch": self.driver,
            "the driver dies in the middle of a batch that it writes itself": self.writing_driver,
            "a worker is killed": lambda: self.job.busy_worker(self.ledger).kill(),
            "an executor is paused until others have done its work": self.zombie,
            "an executor is killed": self.executor,
            "a broker is killed": self.broker,
        }
        if not job.terms.master.startswith("local-cluster"):  # the executor is the driver
            for kind in [kind for kind in self.kinds if "executor" in kind]:
                del self.kinds[kind]

    def strike(self, faults: int, kinds: Sequence[str] = ()) -> None:
        """Cause so many faults: all kinds in random order, and then all again; or these kinds."""
        rounds = (self.chance.sample(list(self.kinds), len(self.kinds)) for _ in itertools.count())
        for kind in kinds or itertools.islice(itertools.chain.from_iterable(rounds), faults):
            began = time.monotonic()
            with suppress(psutil.NoSuchProcess):  # whoever was to be harmed ended by itself in this moment
                self.kinds[kind]()
                self.done.append(kind)
                self.counts.fault(kind)
            self.go_on()
            logger.info("%d: %s: survived in %.1f s", len(self.done), kind, time.monotonic() - began)

    def go_on(self) -> None:
        """Wait until more rows are written; a driver that has ended is restarted."""
        goal = self.ledger.different + PROGRESS
        self.until(lambda: self.ledger.different >= goal, "more comes out")
        self.counts.went_on()

    def until(self, done: Callable[[], bool], what: str, timeout: float = 3 * BOUND) -> None:
        """Wait for a condition, and restart the job meanwhile if it has ended."""
        end = time.monotonic() + timeout
        while not done():
            self.job.see()
            assert time.monotonic() < end, f"within {timeout:.0f} s it did not come true that {what}; {self.done}"
            time.sleep(0.1)

    def task(self) -> None:
        self.job.orders.give(TASK)
        self.until(lambda: not self.job.orders.is_open(TASK), "a task took the order")

    def order(self, order: str) -> None:
        self.job.orders.give(order)
        self.until(lambda: not self.job.orders.is_open(order), "the driver took the order")

    def driver(self) -> None:
        self.job.busy_worker(self.ledger)
        self.job.kill()

    def writing_driver(self) -> None:
        """Let the driver write the batches, and kill it; tasks write the rest of the batch in its next life."""
        self.job.kill()
        self.job.start(driver_rows=PER_BATCH)
        self.go_on()
        self.until(self.ledger.transaction_is_open, "the driver writes")
        self.job.kill()
        self.job.start(driver_rows=0)

    def zombie(self) -> None:
        """Pause an executor whose worker writes; resume it when others have done its work."""
        worker = self.job.busy_worker(self.ledger)
        executor = next(one for one in worker.parents() if one.pid in {each.pid for each in self.job.executors()})
        paused = [executor, *executor.children(recursive=True)]
        for process in paused:
            process.suspend()
        try:
            self.go_on()
        finally:
            for process in paused:
                with suppress(psutil.NoSuchProcess):  # Spark may have killed those that it can reach
                    process.resume()

    def executor(self) -> None:
        self.job.busy_worker(self.ledger)
        self.chance.choice(self.job.executors()).kill()

    def broker(self) -> None:
        """Kill a broker while a shard is being written, and start it again."""
        node = self.chance.choice(list(self.kafka.nodes))
        self.job.busy_worker(self.ledger)
        self.kafka.kill(node)
        self.kafka.start(node)


@pytest.mark.proof("sink")
def test_each_row_is_written_once_under_all_faults(pytestconfig: pytest.Config, kafka: LocalKafka) -> None:
    """Tasks that fail, workers, executors, drivers and brokers that die, and workers that are paused."""
    seed = int(pytestconfig.option.hypothesis_seed)
    survive(kafka, Pipe.on(kafka, "sink", partitions=4), seed, FAULTS, master="local-cluster[2,1,1024]")


@pytest.mark.proof("sink")
def test_one_task_writes_each_row_of_all_shards_once_under_all_faults(
    pytestconfig: pytest.Config, kafka: LocalKafka
) -> None:
    """The task computes the rows while the transactions of all shards are open."""
    seed = int(pytestconfig.option.hypothesis_seed)
    survive(kafka, Pipe.on(kafka, "joined", partitions=4), seed, FAULTS // 2 + 1, master="local[2,8]", joins=True)


@pytest.mark.parametrize(
    "kind",
    [
        "a worker is killed",
        # A driver takes half a minute of processor time to come back; test_sink_live.py replays its batches.
        pytest.param("the driver dies after the batch is written", marks=pytest.mark.proof("sink")),
    ],
)
def test_each_row_is_written_once_though_a_process_is_killed(
    pytestconfig: pytest.Config, shared_kafka: Callable[[str], LocalKafka], kind: str
) -> None:
    """The same harness on one broker, with one fault."""
    seed, broker = int(pytestconfig.option.hypothesis_seed), shared_kafka(KAFKA)
    survive(broker, Pipe.on(broker, "brief", partitions=4), seed, 1, (kind,), rate=2 * RATE, master="local[2,8]")


def survive(
    kafka: LocalKafka,
    pipe: Pipe,
    seed: int,
    faults: int,
    kinds: Sequence[str] = (),
    *,
    rate: float = RATE,
    **terms: object,
) -> None:
    """Harm a job ``SINK_FAULTS`` times while rows come in; each row must come out once."""
    with Ledger(pipe) as ledger, Driving(pipe, shards=4, per_batch=PER_BATCH, settings=SETTINGS, **terms) as job:
        harm = Harm(kafka, ledger, job, seed)
        logger.info("seed %d", seed)
        with ledger.load(rate):
            harm.go_on()
            harm.strike(faults, kinds)
        ledger.feed_now(max(0, faults * ROWS - ledger.fed))
        harm.until(lambda: ledger.different >= ledger.fed, "all has come out", 10 * BOUND)
        job.kill()
        balance = ledger.settled(3 * BOUND)
        harm.counts.balanced(balance)
        logger.info("seed %d: %s; %d faults, %d lives of the driver", seed, balance, len(harm.done), job.lives)
        assert balance.exactly_once, f"seed {seed}: {balance}; {harm.done}"
        assert len(harm.done) >= max(1, faults * 7 // 8), "now and then whoever was to be harmed ended by itself"


@pytest.mark.proof("sink")
def test_sparks_own_sink_doubles_rows_in_the_same_harness(kafka: LocalKafka) -> None:
    """The test above can fail: a task that is retried writes rows again."""
    pipe = Pipe.on(kafka, "built-in", partitions=4)
    with Ledger(pipe) as ledger, Driving(pipe, kind="built-in", per_batch=PER_BATCH) as job:
        ledger.feed_now(3 * PER_BATCH)
        job.orders.give(TASK)
        end = time.monotonic() + 3 * BOUND
        while ledger.different < 3 * PER_BATCH:
            job.see()
            assert time.monotonic() < end, ledger.glance()
            time.sleep(0.1)
        job.kill()
        balance = ledger.settled(3 * BOUND)
    logger.info("%s", balance)
    assert balance.duplicated
    assert not balance.lost

"""The Kafka sink with real Spark and Kafka: columns, shards, replays and errors."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from streams.copying import copying

from featuregate.testing import LocalKafka
from featuregate_spark import FeatureSession, NotReplayable, ProgressLost, WriteFailed, WrongColumns
from featuregate_spark.events import BatchWritten
from featuregate_spark.sink import kafka_sink
from featuregate_spark.sink.job import Tasks, write_batch
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shards import Batch

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
def features(spark: SparkSession, kafka: LocalKafka, told: list[Any]) -> Iterator[FeatureSession]:
    with FeatureSession(spark, kafka.bootstrap, metrics=told.append) as session:
        yield session


def written(told: list[Any]) -> list[BatchWritten]:
    return [event for event in told if isinstance(event, BatchWritten)]


def outputs(kafka: LocalKafka, topic: str, partitions: int = 1) -> list[tuple[Any, ...]]:
    """Read all committed records of a topic: partition, key, value, headers, by value."""
    config = {"group.id": "outputs", "isolation.level": "read_committed", "enable.partition.eof": True}
    found = []
    with Consumer(kafka.client_config({**config, "auto.offset.reset": "earliest"})) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        ends, until = 0, time.monotonic() + BOUND
        while ends < partitions:
            assert time.monotonic() < until, f"{topic} was not read to its end"
            for message in consumer.consume(1000, 0.1):
                if message.error() is None:
                    found.append((message.partition(), message.key(), message.value(), message.headers()))
                else:
                    ends += 1
    return sorted(found, key=lambda record: record[2] or b"")


def compression(kafka: LocalKafka, topic: str) -> bytes:
    """Read the log of a topic's first partition from the broker's disk."""
    log = kafka.node(kafka.nodes[0]).log.parent.rglob(f"{topic}-0/*.log")
    return b"".join(each.read_bytes() for each in log)


def test_the_sink_takes_the_columns_of_sparks_own_sink(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession
) -> None:
    """Columns are text or bytes; topic, partition and headers are optional; the option topic wins over the column."""
    here, there = Pipe.on(kafka, "columns", partitions=2), Pipe.on(kafka, "columns-else", partitions=2)
    rows = spark.createDataFrame(
        [("k", "a", here.sink, 1, [("h", bytearray(b"1")), ("h", None)]), (None, "b", there.sink, None, None)],
        "key string, value string, topic string, partition int, headers array<struct<key:string,value:binary>>",
    )
    features.kafka_sink("columns", progress_topic=here.sink)(rows, 0)
    assert outputs(kafka, here.sink, 2) == [(1, b"k", b"a", [("h", b"1"), ("h", None)])]
    assert [each[1:] for each in outputs(kafka, there.sink, 2)] == [(None, b"b", None)]
    features.kafka_sink("columns-2", there.sink)(rows.select(f.col("value").cast("binary"), "topic"), 0)
    assert [each[2] for each in outputs(kafka, there.sink, 2)] == [b"a", b"b", b"b"]
    assert len(outputs(kafka, here.sink, 2)) == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("key string, text string", "there is no column 'value'; there are: key, text"),
        ("value int", "column 'value' is int, and must be string or binary"),
        ("value string, headers string", "column 'headers' is string, and must be array"),
        ("value string, partition long", "column 'partition' is bigint, and must be int"),
    ],
)
def test_wrong_columns_are_an_error_before_anything_is_written(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession, columns: str, said: str
) -> None:
    """The error names the column."""
    pipe = Pipe.on(kafka, "wrong-columns")
    with pytest.raises(WrongColumns, match=said):
        features.kafka_sink("wrong-columns", pipe.sink)(spark.createDataFrame([], columns), 0)
    with pytest.raises(WrongColumns, match="no column 'topic', and the sink was given no topic"):
        features.kafka_sink("no-topic", progress_topic=pipe.sink)(spark.createDataFrame([], "value string"), 0)
    with pytest.raises(WrongColumns, match="no column 'region', named by shard_by; there are: value"):
        features.kafka_sink("no-by", pipe.sink, shard_by=["region"])(spark.createDataFrame([], "value string"), 0)


def test_a_replay_writes_nothing_twice_and_an_empty_batch_makes_progress(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession, told: list[Any]
) -> None:
    """Each shard commits each batch, because otherwise the next batch would find lost progress."""
    pipe = Pipe.on(kafka, "replays", partitions=3)
    rows = spark.range(100).select(f.col("id").cast("string").alias("value"))
    empty = rows.where("value = 'none'")
    for batch_id, batch in enumerate([rows, empty, spark.createDataFrame([], rows.schema), rows]):
        for attempt in (1, 2):
            features.kafka_sink("replays", pipe.sink, shards=3)(batch, batch_id)
            count = 100 if batch_id in {0, 3} and attempt == 1 else 0
            last = written(told)[-1]
            assert (last.batch_id, last.rows, last.skipped) == (batch_id, count, 0 if attempt == 1 else 3)
    assert len(outputs(kafka, pipe.sink, 3)) == 200


def test_a_replay_has_the_shards_of_the_first_run(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of three shards failed; the query restarts with two shards, which it uses from the next batch on."""
    monkeypatch.setattr(kafka_sink, "_is_one_machine", lambda _: False)  # a task for each shard
    pipe = Pipe.on(kafka, "other-shards", partitions=3)
    values = spark.range(90).select(f.col("id").cast("string").alias("value"))
    shard = f.pmod(f.hash(f.col("value").cast("binary")), f.lit(3))
    last = values.where(shard == 2).first()  # of three tasks on two cores the last one begins when another has ended
    assert last is not None
    poisoned = values.withColumn("partition", f.when(f.col("value") == last["value"], 99).cast("int"))
    with pytest.raises(WriteFailed, match=r"^shard 2 of 3 of query .other-shards., batch 0: .*UNKNOWN_PARTITION"):
        features.kafka_sink("other-shards", pipe.sink, shards=3)(poisoned, 0)
    some = len(outputs(kafka, pipe.sink, 3))
    assert 0 < some < 90, "a part of the batch was written"
    with pytest.raises(NotReplayable, match=r"with shard_by=\['value'\] its rows would go to other shards"):
        features.kafka_sink("other-shards", pipe.sink, shards=2, shard_by=["value"])(values, 0)
    features.kafka_sink("other-shards", pipe.sink, shards=2)(values, 0)
    replay = written(told)[-1]
    assert replay.shards == 3
    assert 0 < replay.rows <= 90 - some, "a task may commit after another has failed the job"
    assert replay.skipped in {1, 2}
    features.kafka_sink("other-shards", pipe.sink, shards=2)(values, 1)
    assert (written(told)[-1].shards, written(told)[-1].rows) == (2, 90)
    assert sorted(each[2] for each in outputs(kafka, pipe.sink, 3)) == sorted(
        str(number).encode() for number in [*range(90), *range(90)]
    )


@pytest.mark.parametrize(("cores", "shards"), [(1, 1), (2, 3)])
def test_one_task_joins_all_partitions_and_writes_all_shards(
    spark: SparkSession,
    kafka: LocalKafka,
    features: FeatureSession,
    monkeypatch: pytest.MonkeyPatch,
    told: list[Any],
    cores: int,
    shards: int,
) -> None:
    """Without a shuffle, a replay writes nothing twice, and an empty batch makes progress."""
    name = f"joined-{shards}"
    pipe = Pipe.on(kafka, name, partitions=shards)
    rows = spark.range(0, 100, numPartitions=3).select(f.col("id").cast("string").alias("value"))
    empty = spark.createDataFrame([], rows.schema)
    monkeypatch.setattr(kafka_sink, "_cores", lambda _: cores)
    monkeypatch.setattr(kafka_sink, "_CHEAP_SECONDS", BOUND)
    sink = features.kafka_sink(name, pipe.sink, shards=shards, driver_rows=0)
    for batch_id, batch in enumerate([rows, rows, empty, rows]):
        sink(batch, batch_id)
    assert [(event.shards, event.rows) for event in written(told)] == [(shards, n) for n in (100, 100, 0, 100)]
    sink.close()
    features.kafka_sink(name, pipe.sink)(rows, 3)
    assert written(told)[-1].skipped == shards
    found = [each[2] for each in outputs(kafka, pipe.sink, shards)]
    assert sorted(found) == sorted(str(number).encode() for number in range(100) for _ in range(3))


@pytest.fixture
def by_tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []

    def write(rows: DataFrame, batch: Batch, tasks: Tasks) -> list[CommittedShard]:
        found.append(batch.batch_id)
        return write_batch(rows, batch, tasks)

    monkeypatch.setattr(kafka_sink, "write_batch", write)
    return found


def test_the_driver_writes_a_small_batch_after_a_small_one(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession, told: list[Any], by_tasks: list[int]
) -> None:
    """Its columns, its empty batches and its replays are those of tasks; tasks write what is more, or longer."""
    pipe = Pipe.on(kafka, "small", partitions=2)
    sink = features.kafka_sink("small", pipe.sink, shards=2, driver_rows=4)
    schema = "key string, value string, partition int, headers array<struct<key:string,value:binary>>"
    header = [("h", bytearray(b"1")), ("h", None)]
    batches = [
        [("k", "a", 1, None)],
        [("k", "b", 1, header), (None, "c", None, None), ("k", "d", 1, []), (None, None, 0, None)],
        [],
        [("k", "e" * 4096, 1, None)],
        [("k", f"f{number}", 1, None) for number in range(5)],
        [("k", "g", 1, None)],
        [("k", "h", 1, None)],
        [("k", "i", 1, [("h", bytearray(4097))])],
    ]
    for batch_id, rows in enumerate(batches):
        for attempt in (1, 2):
            sink(spark.createDataFrame(rows, schema).coalesce(1), batch_id)
            last = written(told)[-1]
            assert (last.rows, last.skipped) == ((len(rows), 0) if attempt == 1 else (0, 2)), batch_id
    # The replay of a batch has no rows to write, so that the next one is tried here. It is too large, and so is its
    # replay.
    assert by_tasks == [0, 3, 3, 4, 4, 7, 7]
    found = outputs(kafka, pipe.sink, 2)
    assert sorted(each[2] for each in found if each[2]) == sorted(
        row[1].encode() for rows in batches for row in rows if row[1]
    )
    assert [each[3] for each in found if each[2] == b"b"] == [[("h", b"1"), ("h", None)]]
    assert [each[1] for each in found if each[2] in {None, b"c"}] == [None, None]


def test_shards_that_the_driver_has_not_written_are_written_by_tasks(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession, by_tasks: list[int]
) -> None:
    """One shard of two fails on the driver, also when it tries again; a row has the same shard in tasks."""
    pipe = Pipe.on(kafka, "half-small", partitions=2)
    sink = features.kafka_sink("half-small", pipe.sink, shards=2)
    rows = spark.range(40).select(f.col("id").cast("string").alias("value"))
    sink(rows, 0)
    poisoned = rows.withColumn("partition", f.when(f.col("value") == "7", 99).cast("int"))
    with pytest.raises(WriteFailed, match=r"of query .half-small., batch 1: .*UNKNOWN_PARTITION"):
        sink(poisoned, 1)
    some = len(outputs(kafka, pipe.sink, 2)) - 40
    assert 0 < some < 40, "a part of the batch was written"
    sink(rows, 1)
    sink(rows, 2)
    assert by_tasks == [0, 1]
    assert sorted(each[2] for each in outputs(kafka, pipe.sink, 2)) == sorted(
        str(number).encode() for number in range(40) for _ in range(3)
    )


def test_lost_progress_and_older_checkpoints_are_refused(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession
) -> None:
    """The sink writes nothing, and the error says what to do."""
    pipe = Pipe.on(kafka, "progress", partitions=2)
    rows = spark.createDataFrame([("a",)], "value string")
    features.kafka_sink("progress", pipe.sink, first_batch=5)(rows, 5)
    features.kafka_sink("progress", pipe.sink)(rows, 6)
    with pytest.raises(ProgressLost, match="batch 0 comes again, and batch 6 was committed already"):
        features.kafka_sink("progress", pipe.sink)(rows, 0)
    admin = AdminClient(kafka.client_config())
    admin.delete_consumer_groups(["progress"])["progress"].result(BOUND)
    with pytest.raises(ProgressLost, match="its offsets have expired, were deleted"):
        features.kafka_sink("progress", pipe.sink)(rows, 7)
    assert len(outputs(kafka, pipe.sink, 2)) == 2


def run_once(rows: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path) -> None:
    """Write what a stream has by now, and raise what ended its query."""
    writing = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(int(BOUND)), "the query did not end"
    finally:
        query.stop()


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> DataFrame:
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "a").write_text("a\n")
    return spark.readStream.text(str(folder))


def test_a_new_checkpoint_under_an_old_name_is_refused(
    kafka: LocalKafka, features: FeatureSession, lines: DataFrame, tmp_path: Path
) -> None:
    """Its batch 0 would pass for the one that the old one has written. The old one goes on, in another process, too."""
    pipe = Pipe.on(kafka, "checkpoints", partitions=2)
    run_once(lines, features.kafka_sink("checkpoints", pipe.sink), tmp_path / "old")
    with pytest.raises(Exception, match=r"ProgressLost.* has committed batch 0 with another checkpoint"):
        run_once(lines, features.kafka_sink("checkpoints", pipe.sink), tmp_path / "new")
    (tmp_path / "lines" / "b").write_text("b\n")
    run_once(lines, features.kafka_sink("checkpoints", pipe.sink), tmp_path / "old")
    assert [each[2] for each in outputs(kafka, pipe.sink, 2)] == [b"a", b"b"]


def test_a_second_call_in_a_batch_is_refused(
    kafka: LocalKafka, features: FeatureSession, lines: DataFrame, tmp_path: Path
) -> None:
    """Its rows would pass for the ones that the first call has written."""
    pipe = Pipe.on(kafka, "twice", partitions=2)
    sink = features.kafka_sink("twice", pipe.sink)

    def write(df: DataFrame, batch_id: int) -> None:
        sink(df, batch_id)
        sink(df.selectExpr("upper(value) AS value"), batch_id)

    with pytest.raises(Exception, match=r"WrittenBefore.* has written batch 0 already"):
        run_once(lines, write, tmp_path / "checkpoint")
    assert [each[2] for each in outputs(kafka, pipe.sink, 2)] == [b"a"]
    run_once(lines, sink, tmp_path / "checkpoint")
    assert len(outputs(kafka, pipe.sink, 2)) == 1, "the replay is another run"


def test_the_clock_of_the_function_is_refused_and_that_of_the_query_taken(
    kafka: LocalKafka, features: FeatureSession, lines: DataFrame, tmp_path: Path
) -> None:
    """A row with another time has another shard, where it would be lost or doubled; shard_by names what stays."""
    pipe = Pipe.on(kafka, "clocks", partitions=2)
    stamped = "concat(value, '|', cast(current_timestamp() AS string)) AS value"
    sink = features.kafka_sink("clocks", pipe.sink)
    with pytest.raises(Exception, match=r"NotReplayable.*the rows have current_timestamp\(\)"):
        run_once(lines, lambda df, batch_id: sink(df.selectExpr(stamped), batch_id), tmp_path / "one")
    assert not outputs(kafka, pipe.sink, 2)
    run_once(lines.selectExpr(stamped), sink, tmp_path / "two")
    assert len(outputs(kafka, pipe.sink, 2)) == 1
    by_line = features.kafka_sink("clocks-2", pipe.sink, shard_by=["line"])
    run_once(
        lines.selectExpr("value AS line", "value"),
        lambda df, batch_id: by_line(df.selectExpr("line", stamped), batch_id),
        tmp_path / "three",
    )
    assert len(outputs(kafka, pipe.sink, 2)) == 2


def test_a_key_has_the_partition_that_sparks_own_sink_gives_it(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession
) -> None:
    """A job may change its sink, and rows of a key stay in order; Java's producers have the same rule."""
    ours, theirs = Pipe.on(kafka, "keys-ours", partitions=5), Pipe.on(kafka, "keys-theirs", partitions=5)
    rows = spark.range(200).selectExpr("concat('key-', id) AS key", "cast(id AS string) AS value")
    features.kafka_sink("keys-ours", ours.sink)(rows, 0)
    writing = rows.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    writing.option("topic", theirs.sink).save()
    found = [[each[:2] for each in outputs(kafka, pipe.sink, 5)] for pipe in (ours, theirs)]
    assert found[0] == found[1]
    assert len({partition for partition, _ in found[0]}) == 5


def test_zstd_is_used_once_every_broker_knows_it(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession
) -> None:
    """The log on the broker's disk shows the compression, which the app may set itself."""
    zstd, plain = Pipe.on(kafka, "zstd"), Pipe.on(kafka, "plain")
    rows = spark.createDataFrame([("abcdefgh" * 1000,)], "value string")
    features.kafka_sink("zstd", zstd.sink)(rows, 0)
    features.kafka_sink("plain", plain.sink, producer={"compression.type": "none"})(rows, 0)
    assert b"abcdefgh" * 10 in compression(kafka, plain.sink)
    assert b"abcdefgh" * 10 not in compression(kafka, zstd.sink)
    assert b"\x28\xb5\x2f\xfd" in compression(kafka, zstd.sink), "zstd's magic number"


def test_an_error_of_a_task_reaches_the_driver(
    spark: SparkSession, kafka: LocalKafka, features: FeatureSession
) -> None:
    """The error has its own class, and nothing is written."""
    pipe = Pipe.on(kafka, "mistakes", partitions=2)
    large = spark.createDataFrame([("x" * 2_000_000,)], "value string")
    with pytest.raises(WriteFailed, match=r"a record of 2,000,000 bytes .* was not accepted: MSG_SIZE_TOO_LARGE"):
        features.kafka_sink("mistakes", pipe.sink)(large, 0)
    assert not outputs(kafka, pipe.sink, 2)


def test_rows_of_a_key_keep_their_order(spark: SparkSession, kafka: LocalKafka, features: FeatureSession) -> None:
    """Rows of one key share a shard, and keep their order."""
    pipe = Pipe.on(kafka, "order", partitions=2)
    rows = spark.range(0, 5000, numPartitions=1).select(
        (f.col("id") % 7).cast("string").alias("key"), f.col("id").cast("string").alias("value")
    )
    features.kafka_sink("order", pipe.sink, shards=2)(rows, 0)
    by_key: dict[bytes, list[int]] = {}
    with Consumer(kafka.client_config({"group.id": "order", "auto.offset.reset": "earliest"})) as consumer:
        consumer.assign([TopicPartition(pipe.sink, each, 0) for each in range(2)])
        for message in consumer.consume(5000, BOUND):
            by_key.setdefault(message.key() or b"", []).append(int(message.value() or b""))
    assert sum(map(len, by_key.values())) == 5000
    assert all(values == sorted(values) for values in by_key.values())


@pytest.mark.parametrize("version", ["2.4.1", "3.9.2"])
@pytest.mark.proof("sink")
def test_the_sink_writes_to_older_brokers(
    spark: SparkSession, shared_kafka: Callable[[str], LocalKafka], tmp_path: Path, version: str
) -> None:
    """Brokers without stable offsets are among them: there the sink reads the progress until two reads agree."""
    told: list[Any] = []
    kafka = shared_kafka(version)
    with FeatureSession(spark, kafka.bootstrap, metrics=told.append) as features:
        pipe = Pipe.on(kafka, "older", partitions=2)
        with Ledger(pipe) as ledger:
            ledger.feed_now(1000)
            for _ in range(2):
                sink = features.kafka_sink("older", pipe.sink)
                query = copying(spark, pipe, tmp_path / "checkpoint", sink, maxOffsetsPerTrigger="300")
                query.trigger(availableNow=True).start().awaitTermination(BOUND)
            ledger.balance().assert_exactly_once()
        stable = features.gate("kafka-sink-kip447", "TxnOffsetCommit>=3 & OffsetFetch>=7 & AddOffsetsToTxn>=0").open
        assert stable is (version != "2.4.1")

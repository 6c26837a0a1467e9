"""The options of the Kafka sink: what is refused, and the batch that follows from them."""

from typing import Any

import pytest

from featuregate.errors import ConfigError
from featuregate_spark.sink.options import SinkOptions
from featuregate_spark.sink.shards import Sharding


def options(**more: Any) -> SinkOptions:
    known: dict[str, Any] = {
        "query_name": "copies",
        "topic": "output",
        "progress_topic": None,
        "producer": {"bootstrap.servers": "b:9092", "sasl.password": "hush", "linger.ms": 5},
        "shards": None,
        "shard_by": (),
        "first_batch": 0,
        "timeout": 60.0,
        "driver_rows": 1000,
    }
    return SinkOptions(**{**known, **more})


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("query_name", {"query_name": ""}),
        ("progress_topic", {"topic": None}),
        ("shards", {"shards": 0}),
        ("shard_by", {"shard_by": [""]}),
        ("shard_by", {"shard_by": "region"}),
        ("shard_by", {"shard_by": ["x" * 4000]}),
        ("timeout", {"timeout": 0}),
        ("driver_rows", {"driver_rows": -1}),
        ("transactional.id", {"producer": {"transactional.id": "mine"}}),
        ("enable.idempotence", {"producer": {"enable.idempotence": False}}),
        ("acks", {"producer": {"acks": 1}}),
    ],
)
def test_an_option_that_cannot_be_used_is_named(name: str, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: "):
        options(**more)


def test_there_is_a_shard_for_each_core_but_not_more_than_partitions() -> None:
    """A shard keeps its progress on a partition; a number of the user is never reduced silently."""
    assert options().shards_of(partitions=8, cores=4) == 4
    assert options().shards_of(partitions=2, cores=4) == 2
    assert options(shards=6).shards_of(partitions=8, cores=4) == 6
    with pytest.raises(ConfigError, match=r"^shards: must not be more than the 4 partitions of 'notes'"):
        options(shards=6, progress_topic="notes").shards_of(partitions=4, cores=4)


def test_a_batch_has_the_properties_of_the_user_and_its_consumers_only_the_connection() -> None:
    """A consumer warns of properties that it does not know; no secret is shown."""
    batch = options(shard_by=["region"]).batch(7, 3, stable_offsets=True, zstd=True)
    assert batch.sharding == Sharding(3, ("region",))
    assert (batch.progress_topic, batch.topic) == ("output", "output")
    assert batch.connection == {"bootstrap.servers": "b:9092", "sasl.password": "hush"}
    assert (batch.producer["linger.ms"], batch.producer["compression.type"]) == (5, "zstd")
    assert "hush" not in repr(batch) + repr(options())


def test_columns_of_an_iterator_are_those_of_each_batch() -> None:
    """Without them rows would go to the shards of their keys, and nobody would have looked whether a replay may."""
    given = options(shard_by=iter(["region"]))
    assert [given.batch(at, 3, stable_offsets=True, zstd=False).sharding.shard_by for at in (7, 8)] == [("region",)] * 2


def test_records_wait_for_larger_requests_unless_the_user_has_chosen() -> None:
    """The commit waits for no record, so that no batch takes longer."""
    assert options(producer={}).batch(7, 3, stable_offsets=True, zstd=False).producer["linger.ms"] == 50
    assert options().batch(7, 3, stable_offsets=True, zstd=False).producer["linger.ms"] == 5


def test_a_compression_that_the_user_has_chosen_stays() -> None:
    """A consumer of the topic may not support zstd."""
    assert "compression.type" not in options().batch(7, 3, stable_offsets=True, zstd=False).producer
    chosen = options(producer={"compression.type": "lz4"}).batch(7, 3, stable_offsets=True, zstd=True)
    assert chosen.producer["compression.type"] == "lz4"

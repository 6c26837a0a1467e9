"""A commit of a shard whose connection broke is repeated, and its first copy arrives within the next batch."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from eos.late_requests import END_TXN, behind_proxy
from eos.pipes import Pipe
from shards import batch_on, rows_of, values_in

from featuregate_librdkafka.transaction_calls import ConnectionWatch
from featuregate_spark.sink.shard_attempt import CommittedShard
from featuregate_spark.sink.shard_producer import KeptClients
from featuregate_spark.sink.shard_task import write_shards
from featuregate_spark.sink.shards import Shard

pytestmark = [pytest.mark.proof("sink"), pytest.mark.live, pytest.mark.timeout(300)]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_late_commit_of_a_shard(monkeypatch: pytest.MonkeyPatch, *, guarded: bool) -> None:
    """It would commit some rows of the next batch with their progress: if the task dies then, the others are lost."""
    if not guarded:
        monkeypatch.setattr(ConnectionWatch, "log", lambda *_: None)
    with behind_proxy("4.2.0") as (kafka, proxy), closing(KeptClients()) as kept, closing(KeptClients()) as another:
        topic = Pipe.on(kafka, "late-commit").sink
        batch = batch_on(kafka.client_config(), "late-commit", batch_id=0, progress_topic=topic, topic=topic)
        first, second = (Shard(replace(batch, batch_id=number), 0) for number in (0, 1))
        proxy.hold(END_TXN)
        write_shards([first], iter([rows_of(first, b"a")]), kept)

        def rows() -> Iterator[object]:
            yield rows_of(second, b"b")
            proxy.held().hand_on()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write_shards([second], rows(), kept)  # type: ignore[arg-type]
        again = write_shards([second], iter([rows_of(second, b"b", b"c")]), another)[0]
        assert again == (CommittedShard(2, 2, skipped=False) if guarded else CommittedShard())
        assert (values_in(batch.connection, topic) == [b"a", b"b", b"c"]) is guarded

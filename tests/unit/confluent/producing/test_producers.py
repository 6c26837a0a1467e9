"""The producers of a member, on librdkafka's mock cluster."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError

from featuregate_confluent import MustRejoin, SwitchFatal
from featuregate_confluent.producing.producers import Producers

if TYPE_CHECKING:
    from mock_kafka import MockKafka

INIT_PRODUCER_ID, ADD_PARTITIONS = 22, 24
A, B = ("orders", 0), ("orders", 1)
BOUND = 30.0


def producers_on(kafka: MockKafka) -> Producers:
    return Producers({"bootstrap.servers": kafka.bootstrap, "log_level": 0}, app_id="billing", process="one")


def test_partitions_have_producers_until_the_process_has_one(kafka: MockKafka) -> None:
    """The producer of the process is opened before those of the partitions are closed."""
    with closing(producers_on(kafka)) as producers:
        producers.open([A, B])
        assert (len(producers), A in producers, B in producers) == (2, True, True)
        producers.close_for([B])
        assert (len(producers), B in producers) == (1, False)
        producers.open_for_process()
        assert (len(producers), A in producers) == (1, False)
        assert producers.for_process is producers.for_process
    assert len(producers) == 0


def test_an_old_producer_is_fenced_and_none_is_kept(kafka: MockKafka) -> None:
    """A member in v2 calls init_transactions() with the id of each partition that no commit in v2 has marked (R6)."""
    with closing(producers_on(kafka)) as producers:
        producers.fence([A, B])
        kafka.wait_for(INIT_PRODUCER_ID)
        assert len(producers) == 0


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SwitchFatal),
        (KafkaError.INVALID_PRODUCER_EPOCH, MustRejoin),
    ],
)
def test_where_one_id_cannot_be_had_no_producer_is_kept(kafka: MockKafka, code: int, kind: type[Exception]) -> None:
    """A member needs all of its producers. The error says whether a new member may succeed."""
    kafka.answer(INIT_PRODUCER_ID, [code])
    with closing(producers_on(kafka)) as producers:
        with pytest.raises(kind, match="could not be taken"):
            producers.open([A, B])
        assert len(producers) == 0


def test_properties_that_librdkafka_refuses_are_fatal(kafka: MockKafka) -> None:
    """Another attempt would be refused as well."""
    refused = {"bootstrap.servers": kafka.bootstrap, "linger.ms": -5}
    with pytest.raises(SwitchFatal, match="properties are refused"):
        Producers(refused, app_id="billing", process="one").open([A])


def test_a_producer_that_failed_while_it_was_idle_does_not_end_the_loop(
    kafka: MockKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """confluent-kafka raises the error from any call; the next transaction fails with it and handles it."""
    caplog.set_level(logging.INFO, "featuregate.confluent.producer")
    kafka.create_topic("bills")
    with closing(producers_on(kafka)) as producers:
        producers.open([A])
        producers.for_partition(A).begin_transaction()
        kafka.answer(ADD_PARTITIONS, [KafkaError.INVALID_PRODUCER_EPOCH])
        producers.for_partition(A).produce("bills", b"bill", partition=0)
        until = time.monotonic() + BOUND
        while "a producer has failed" not in caplog.text:
            assert time.monotonic() < until
            producers.poll()


def test_two_partitions_with_one_transactional_id_are_refused(kafka: MockKafka) -> None:
    """The producer of one would fence that of the other, time and again; both are named."""
    config = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    with closing(Producers(config, app_id="billing", process="one", name_of=lambda app, key: f"{app}-{key[1]}")) as own:
        own.open([A])
        with pytest.raises(SwitchFatal, match=r"bills\[0\], orders\[0\] one transactional id, 'billing-0'"):
            own.open([("bills", 0)])
        assert own.id_of(own.for_partition(A)) == "billing-0"
        assert own.id_of(own.for_process) == "billing/one"

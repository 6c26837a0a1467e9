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
from featuregate_librdkafka.transaction_calls import SLOW_SECONDS

if TYPE_CHECKING:
    from mock_kafka import MockKafka

INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
A, B = ("orders", 0), ("orders", 1)
BOUND = 30.0


def producers_on(kafka: MockKafka) -> Producers:
    return Producers({"bootstrap.servers": kafka.bootstrap, "log_level": 0}, app_id="billing", process="one")


def test_partitions_have_producers_until_the_process_has_one(kafka: MockKafka) -> None:
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
    [(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SwitchFatal), (KafkaError.INVALID_PRODUCER_EPOCH, MustRejoin)],
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


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("for_process", [True, False])
def test_a_producer_whose_connection_broke_while_it_ended_a_transaction_is_replaced(
    kafka: MockKafka, *, for_process: bool, commits: bool, cut: bool
) -> None:
    """The client repeats the request, and the first one may reach the broker in the next transaction."""
    kafka.create_topic("bills")
    with closing(producers_on(kafka)) as producers:
        producers.open([A, B])
        producer = producers.for_process if for_process else producers.for_partition(A)
        other = producers.for_partition(B)
        producer.begin_transaction()
        producer.produce("bills", b"bill", partition=0)
        producer.flush(BOUND)
        kafka.wait_for(INIT_PRODUCER_ID)
        if cut:
            kafka.answer(END_TXN, [KafkaError._TRANSPORT])
        (producer.commit_transaction if commits else producer.abort_transaction)(BOUND)
        producers.renew([A, B])
        after = producers.for_process if for_process else producers.for_partition(A)
        assert (after is not producer) is cut
        assert kafka.count(INIT_PRODUCER_ID) == cut, "the new one has taken the id"
        assert producers.for_partition(B) is other


def test_a_producer_is_replaced_after_a_slow_commit(kafka: MockKafka) -> None:
    """A request may have timed out and been repeated, without a broken connection."""
    with closing(producers_on(kafka)) as producers:
        producers.open([A, B])
        slow, quick = producers.for_partition(A), producers.for_partition(B)
        producers.ended(slow, SLOW_SECONDS)
        producers.ended(quick, SLOW_SECONDS / 2)
        producers.renew([A, B])
        assert producers.for_partition(A) is not slow
        assert producers.for_partition(B) is quick

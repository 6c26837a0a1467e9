"""The errors of librdkafka after which a producer cannot be used, and what the switch does."""

import pytest
from confluent_kafka import KafkaException, Producer
from eos.faults import until

from featuregate.testing import LocalKafka
from featuregate_librdkafka.error_table import ErrorAction, explain

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live, pytest.mark.slow]

SECONDS = 30.0


def test_a_producer_whose_messages_timed_out_on_a_broker_before_2_5_is_replaced() -> None:
    """Such a broker cannot renew the producer's epoch (KIP-360); a new producer with the same id goes on."""
    with LocalKafka("2.4.1") as kafka:
        config = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "timed-out", "message.timeout.ms": 2000}
        producer = Producer({**config, "transaction.timeout.ms": 60_000})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("out", b"arrives")
        assert producer.flush(SECONDS) == 0
        failures: list[object] = []
        kafka.pause(1)
        producer.produce("out", b"times out", on_delivery=lambda error, _: failures.append(error))
        until("the message has timed out", lambda: producer.poll(0.1) is not None and bool(failures), SECONDS)
        kafka.resume(1)
        with pytest.raises(KafkaException) as failed:
            producer.abort_transaction(SECONDS)
        error = failed.value.args[0]
        assert (error.name(), error.fatal()) == ("_UNSUPPORTED_FEATURE", True)
        assert explain(error).action is ErrorAction.REJOIN
        new = Producer(config)
        new.init_transactions(SECONDS)
        new.begin_transaction()
        new.produce("out", b"goes on")
        new.commit_transaction(SECONDS)

"""librdkafka's mock cluster, whose answers a test can choose: for clients that need no broker of their own.

confluent-kafka has no names for it, and its librdkafka has; see ``rdkafka_mock.h`` of librdkafka.
"""

import ctypes
import time
from collections.abc import Iterable
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition, cimpl

_lib = ctypes.CDLL(cimpl.__file__)  # finds the symbols of the librdkafka that it is linked to
for _name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
    getattr(_lib, _name).restype = ctypes.c_void_p
_lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
_lib.rd_kafka_mock_get_requests.restype = ctypes.POINTER(ctypes.c_void_p)

_BOUND = 30.0
_PAUSE = 0.01


class MockKafka:
    def __init__(self, brokers: int = 1) -> None:
        conf = ctypes.c_void_p(_lib.rd_kafka_conf_new())
        _lib.rd_kafka_conf_set(conf, b"log_level", b"0", None, ctypes.c_size_t(0))
        self._client = ctypes.c_void_p(_lib.rd_kafka_new(0, conf, None, ctypes.c_size_t(0)))
        self._cluster = ctypes.c_void_p(_lib.rd_kafka_mock_cluster_new(self._client, brokers))
        _lib.rd_kafka_mock_start_request_tracking(self._cluster)
        _lib.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)  # rather than three seconds
        self.bootstrap = _lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _lib.rd_kafka_mock_cluster_destroy(self._cluster)
        _lib.rd_kafka_destroy(self._client)

    @property
    def cluster_id(self) -> str:
        client = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return str(client.list_topics(timeout=_BOUND).cluster_id)

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        _lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)

    def feed(self, topic: str, count: int, partitions: int) -> None:
        """Create a topic, and produce the numbers from 0 on to its partitions in turn."""
        self.create_topic(topic, partitions)
        feeder = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number in range(count):
            feeder.produce(topic, b"%d" % number, partition=number % partitions)
        assert feeder.flush(_BOUND) == 0

    def values(self, topic: str, count: int) -> list[bytes | None]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        try:
            partitions = consumer.list_topics(topic, _BOUND).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            return [message.value() for message in consumer.consume(count, _BOUND)]
        finally:
            consumer.close()

    def wait_for(self, api_key: int) -> None:
        until = time.monotonic() + _BOUND
        while api_key not in self._requests():
            assert time.monotonic() < until, f"no request with API key {api_key} within {_BOUND:g} s"
            time.sleep(_PAUSE)
        _lib.rd_kafka_mock_clear_requests(self._cluster)

    def count(self, api_key: int) -> int:
        return self._requests().count(api_key)

    def _requests(self) -> list[int]:
        count = ctypes.c_size_t()
        found = _lib.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        keys = [_lib.rd_kafka_mock_request_api_key(ctypes.c_void_p(found[at])) for at in range(count.value)]
        _lib.rd_kafka_mock_request_destroy_array(found, count)
        return keys

    def answer(self, api_key: int, errors: Iterable[int], *, after_ms: int = 0, broker: int = 1) -> None:
        """Let a broker answer its next requests of this kind with these error codes (0 for none), each after a time."""
        pairs = [ctypes.c_int(number) for error in errors for number in (error, after_ms)]
        _lib.rd_kafka_mock_broker_push_request_error_rtts(
            self._cluster, ctypes.c_int32(broker), ctypes.c_int16(api_key), ctypes.c_size_t(len(pairs) // 2), *pairs
        )

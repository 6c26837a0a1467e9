"""Clients whose requests a broker logs: a modern one, and one that only speaks old versions."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer

if TYPE_CHECKING:
    from featuregate.testing import LocalKafka

ANCIENT = b"ancient"


def copy_one_record(kafka: LocalKafka) -> None:
    """Produce a record, and consume it in a group."""
    producer = Producer(kafka.client_config({"client.id": 'bill"ing', "log_level": 0}))
    producer.produce("orders", b"one")
    assert producer.flush(60) == 0
    names = {"client.id": "audit", "group.id": "audit", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(kafka.client_config(names))
    consumer.subscribe(["orders"])
    record = consumer.poll(60)
    assert record is not None
    consumer.close()


def ask(host: str, port: int, api_key: int, version: int, body: bytes) -> bytes:
    """Send one request with a header of version 1, and return the first bytes of the answer; none if it is refused."""
    header = struct.pack(">hhih", api_key, version, 7, len(ANCIENT)) + ANCIENT
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        return connection.recv(1024)

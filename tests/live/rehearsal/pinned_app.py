"""The same app as copying_app.py, with kafka-python, and with a protocol version if one is given."""

import os
import sys

from kafka import KafkaConsumer, KafkaProducer


def main() -> None:
    """Copy for ever."""
    pinned = {"api_version": tuple(map(int, sys.argv[1].split(".")))} if sys.argv[1:] else {}
    common = {"bootstrap_servers": os.environ["BOOTSTRAP_SERVERS"].split(","), **pinned}
    producer = KafkaProducer(**common)
    consumer = KafkaConsumer("orders", group_id="copies", auto_offset_reset="earliest", **common)
    for record in consumer:
        producer.send("bills", record.value, record.key)


main()

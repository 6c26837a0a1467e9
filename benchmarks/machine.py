"""What the numbers were measured on. No host name, no path: only what makes a number slower or faster."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from confluent_kafka import libversion
from live import KAFKA

from featuregate.errors import LocalKafkaError
from featuregate.testing.local_kafka.java import find_java


def facts() -> dict[str, str]:
    """Name the machine and the software."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "system": _system(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Java": _java(),
        "Kafka": KAFKA,
        "featuregate": version("featuregate"),
        "confluent-kafka": f"{version('confluent-kafka')} (librdkafka {libversion()[0]})",
        "PySpark": version("pyspark"),
        "kio": version("kio"),
        "kafka-python": version("kafka-python"),
    }


def load() -> str:
    """Say how busy the machine is."""
    return f"{os.getloadavg()[0]:.1f}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = ""
    return ", ".join(filter(None, (name, f"{platform.system()} {platform.release()}", platform.machine())))


def _java() -> str:
    try:
        shown = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True).stderr
    except LocalKafkaError:
        return "none"
    return shown.splitlines()[-1].strip()

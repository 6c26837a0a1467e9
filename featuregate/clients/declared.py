"""Clients by the names and versions of packages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from featuregate.catalog.clients import client_rows, neighbours
from featuregate.clients.fit import Client

PYTHON: Final = (
    *("confluent-kafka", "kafka-python", "aiokafka", "pyspark"),
    *("kafka-python-ng", "pykafka", "asynckafka", "kafka", "robinhood-aiokafka", "kafka-python3", "afkak", "pathway"),
)
"""The packages of PyPI that are clients of Kafka, or have one in them: those that were measured, and others."""
_NEEDING: Final = {
    "confluent-kafka": (
        *("quixstreams", "apache-airflow-providers-apache-kafka", "apache-airflow[apache-kafka]", "sentry-arroyo"),
        *("faststream[confluent]", "kombu[confluentkafka]", "streamz[kafka]", "bytewax[kafka]", "dagster-kafka"),
        *("openlineage-python[kafka]", "openlineage-python[msk-iam]", "robotframework-confluentkafkalibrary"),
    ),
    "aiokafka": ("faust-streaming", "faststream[kafka]", "fastkafka", "propan[async-kafka]", "taskiq-aio-kafka"),
    "kafka-python": ("dagster-kafka", "taskiq-aio-kafka", "kafka-schema-registry"),
    "robinhood-aiokafka": ("faust",),
}
BRINGING: Final = {
    package: tuple(name for name, needing in _NEEDING.items() if package in needing)
    for package in dict.fromkeys(package for needing in _NEEDING.values() for package in needing)
}
"""Packages of PyPI, some with an extra, and the clients that their metadata requires."""
NO_CLIENT: Final = re.compile(
    r"(?:types|mypy-boto3|types-boto3|types-aiobotocore|opentelemetry-instrumentation|aws-cdk)-[\w-]*|[\w-]*-stubs"
    r"|google-cloud-managedkafka|kafka-connect-py|sentry-kafka-schemas|edx-event-bus-kafka"
)
"""Packages of PyPI with Kafka in their names that neither are a client nor require one, by what PyPI says of them:
types, instruments of a client that the app lists itself, and what asks a cloud or Kafka Connect by HTTP."""
KAFKA: Final = "kafka"
_EXACT: Final = re.compile(r"v?\d+(?:\.\d+)*(?:[-.+_]?[A-Za-z][\w.+-]*|[-+][\w.+-]+)?")
_WILDCARD: Final = re.compile(r"\.x\b", re.IGNORECASE)


def exact(version: str) -> str:
    """Return a version; empty for what names several, such as ``2.x`` or ``3.+``, or is none."""
    return version if _EXACT.fullmatch(version) and not _WILDCARD.search(version) else ""


def client(name: str, version: str, found_in: str = "") -> Client:
    """Return a client with the library in it, as measured of this release or of both around it.

    A measured release has the version of the table: ``4.0`` is 4.0.0. One that is not exact is empty.
    """
    version = exact(version)
    around = neighbours(client_rows(name), version, lambda row: row.version)
    libraries = {library for row in around for library in row.bundles.items()}
    known = around[0].version if len(around) == 1 else version
    return Client(name=name, version=known, found_in=found_in, library=libraries.pop() if len(libraries) == 1 else None)


def python_packages(versions: Mapping[str, str | None], found_in: str) -> tuple[Client, ...]:
    """Return the clients among Python packages, and what may be one by its name.

    ``versions``: by the name of each package; None for one that was removed half way. The first of a name counts.
    """
    by_name: dict[str, str | None] = {}
    for name, version in versions.items():
        by_name.setdefault(normalized(name), version)
    known = [name for name in PYTHON if name in by_name]
    others = sorted(name for name in by_name.keys() - {*PYTHON, *BRINGING} if may_be_client(name))
    return tuple(client(name, by_name[name] or "", found_in) for name in (*known, *others))


def may_be_client(name: str) -> bool:
    """Say whether a package that was not measured may be a client by its name, or that of its extra."""
    return KAFKA in name.rpartition("[")[2] and not NO_CLIENT.fullmatch(name)


def normalized(name: str) -> str:
    """Return the name of a Python package as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()

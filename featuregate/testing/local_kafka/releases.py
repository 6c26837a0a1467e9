"""How to run each release of Apache Kafka: one table of changes.

Other releases follow the same rules: the last change at or before a release applies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from featuregate.errors import LocalKafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What one release needs, and what it supports."""

    version: str
    """As Maven spells it, for example ``4.2.0``."""
    numbers: tuple[int, ...]
    """The version as numbers, for comparisons: ``(4, 2, 0)``."""
    scala: str = "2.11"
    """The Scala version of the artifact ``kafka_<scala>``: the newest one for this release."""
    quorum: Literal["zookeeper", "kraft"] = "zookeeper"
    """Where the metadata is stored."""
    logging: Literal["log4j", "log4j2"] = "log4j"
    """The logger whose configuration the release reads."""
    cluster_id: bool = False
    """The cluster has an id (KIP-78)."""
    named_listeners: bool = False
    """Listeners have names (KIP-103), so that two may share a security protocol."""
    pem: bool = False
    """Key stores may be PEM files (KIP-651) with an unencrypted key: 2.7 and 2.8 require a password."""
    scram: Literal["zookeeper", "format"] | None = None
    """How SCRAM users are added before the first broker runs; None if that is impossible."""
    oauthbearer: bool = False
    """The OAUTHBEARER mechanism exists (KIP-255)."""
    features_tool: str | None = None
    """The main class behind ``kafka-features.sh``."""
    tools_of: str | None = None
    """The release of the command-line tools, if the artifacts of this release are not available."""
    patches: tuple[str, ...] = ()
    """Maven coordinates of artifacts that it needs with a newer Java than its own."""

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The Maven coordinates of the broker, and of its tools if they are available."""
        broker = f"org.apache.kafka:kafka_{self.scala}:{self.version}"
        return (broker,) if self.tools_of else (broker, f"org.apache.kafka:kafka-tools:{self.version}")

    @property
    def zookeeper(self) -> bool:
        """Whether a cluster that began with ZooKeeper may run the release: 4.0 removed it (KIP-500)."""
        return self.numbers < (4, 0)

    @property
    def release(self) -> str:
        """The release line, as ``inter.broker.protocol.version`` spells it: ``2.4``, or ``0.10.0`` before 1.0."""
        kept = 3 if self.numbers[0] == 0 else 2
        return ".".join(str(number) for number in self.numbers[:kept])


_JAXB = "javax.xml.bind:jaxb-api:2.3.1"
"""Releases up to 0.11 create cluster ids with it. Java 11 and newer do not contain it."""
_ZOOKEEPER = "org.apache.zookeeper:zookeeper:3.4.12"
"""The client of 2.0 to 2.3 (3.4.13 and 3.4.14) cannot resolve addresses with Java 14 and newer."""

CHANGES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((0, 10, 0), {}),
    ((0, 10, 1), {"cluster_id": True, "patches": (_JAXB,)}),
    ((0, 10, 2), {"named_listeners": True, "scram": "zookeeper"}),
    ((1, 0), {"scala": "2.12", "patches": ()}),
    ((2, 0), {"oauthbearer": True, "patches": (_ZOOKEEPER,)}),
    ((2, 4), {"scala": "2.13", "patches": ()}),
    ((2, 7), {"features_tool": "kafka.admin.FeatureCommand"}),
    # KRaft is ready for use from 3.3 (KIP-833); it has no SCRAM users until 3.5 (KIP-900).
    ((3, 3), {"quorum": "kraft", "scram": None, "pem": True}),
    ((3, 5), {"scram": "format"}),
    ((3, 7), {"features_tool": "org.apache.kafka.tools.FeatureCommand"}),
    ((4, 0), {"logging": "log4j2"}),
    # kafka-tools and kafka-tools-api of 4.4.0 are not available; the broker runs without them.
    ((4, 4), {"tools_of": "4.3.1"}),
    ((4, 4, 1), {"tools_of": None}),
)
"""The changes of each release, oldest first."""


_NUMBERS: Final = 3
_NUMBERS_BEFORE_1: Final = 4
"""Kafka counted 0.10.2.1 before 1.0.0."""


def recipe_for(version: str) -> Recipe:
    """Return how to run a release, such as ``4.2.0``.

    Raises `LocalKafkaError` if this is not a version, or older than ApiVersions (0.10.0, KIP-35).
    """
    numbers = version_numbers(version)
    if len(numbers) < (_NUMBERS_BEFORE_1 if numbers[0] == 0 else _NUMBERS):
        raise LocalKafkaError(f"{version} is a line of releases: name one of it, such as {version}.0")
    if numbers < CHANGES[0][0]:
        raise LocalKafkaError(f"Kafka {version} has no ApiVersions: the oldest that LocalKafka runs is 0.10.0.0")
    recipe = Recipe(version=version, numbers=numbers)
    for since, changed in CHANGES:
        if numbers >= since:
            recipe = replace(recipe, **changed)
    return recipe


def version_numbers(version: str) -> tuple[int, ...]:
    """Return ``4.2.0`` as ``(4, 2, 0)``, without a suffix such as that of ``4.4.0-rc1``."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9}){1,3}(-[A-Za-z0-9.]+)?", version):
        raise LocalKafkaError(f"{version!r} is not a version of Kafka: write it as Maven does, such as 4.2.0")
    return tuple(int(number) for number in version.partition("-")[0].split("."))

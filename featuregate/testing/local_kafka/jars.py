"""The jars of Kafka: ``kafka/<version>/*.jar`` and ``kafka-streams/<version>/*.jar`` in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.jars.maven import Download, cache_folder, fetched

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing.local_kafka.releases import Recipe

STREAMS = "kafka-streams"
"""Prefix of the artifacts of Kafka Streams that a broker does not contain."""

TOOLS = {"kafka-tools", "kafka-tools-api"}
"""Artifacts that a broker can run without, left out if those of the release are not available."""


def jars_of(recipe: Recipe) -> Path:
    """Return the folder with all jars of a release. Download them if they are not in the cache.

    Shows its progress on stderr. Raises `LocalKafkaError` if the download fails, and ImportError if the extra
    ``testing`` is not installed.
    """
    tools = TOOLS if recipe.tools_of else set()
    wanted = Download(f"Kafka {recipe.version}", recipe.coordinates, lambda name: name not in tools, recipe.patches)
    return fetched(wanted, cache_folder() / "kafka" / recipe.version)


def kafka_streams(version: str) -> Path:
    """Return the folder with Kafka Streams and its example apps, for a class path beside `jars_of`; raises alike.

    RocksDB is left out, which has 73 MB: the apps have to keep their state in memory.
    """
    coordinates = (f"org.apache.kafka:kafka-streams-examples:{version}",)
    wanted = Download(f"Kafka Streams {version}", coordinates, lambda name: name.startswith(STREAMS))
    return fetched(wanted, cache_folder() / "kafka-streams" / version)

"""The command lines of Kafka's programs, run from its jars as Kafka's shell scripts do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featuregate.errors import LocalKafkaError
from featuregate.jars.maven import Download, cache_folder, fetched
from featuregate.testing.local_kafka.java import archive_of, find_java, options_to_read
from featuregate.testing.local_kafka.releases import Recipe, recipe_for

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing.local_kafka.config import ClusterConfig

JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
"""Start fast and stay small: no process runs long enough for an optimizing compiler to pay off."""

LOG4J = """\
log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{{ISO8601}} %p %m (%c)%n
"""

LOG4J2 = """\
status=error
rootLogger.level={level}
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{{ISO8601}} %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """One release, ready to run: its jars, Java, and the folder with the logging configuration."""

    recipe: Recipe
    jars: Path
    java: Path
    shared: Path
    classes: tuple[str, ...] = ()
    """The options by which a JVM reads the archive of its classes."""

    @classmethod
    def of(cls, version: str, shared: Path) -> Installation:
        """Find or download what a release needs. ``shared`` is the folder of the cluster."""
        recipe = recipe_for(version)
        jars, java = jars_of(recipe), find_java()
        return cls(recipe, jars, java, shared, tuple(options_to_read(archive_of(jars, java))))

    def broker(self, properties: Path, jaas: Path | None, jvm_options: Iterable[str] = ()) -> list[str | Path]:
        """Return the command line of a node."""
        options = [*jvm_options]
        if jaas:
            options += [f"-Djava.security.auth.login.config={jaas}", "-Dzookeeper.sasl.client=false"]
        return self._java("384m", options, "kafka.Kafka", [properties])

    def zookeeper(self, properties: Path) -> list[str | Path]:
        """Return the command line of a standalone ZooKeeper."""
        return self._java("128m", [], "org.apache.zookeeper.server.quorum.QuorumPeerMain", [properties])

    def tool(self, main_class: str, arguments: Iterable[str | Path]) -> list[str | Path]:
        """Return the command line of a tool, such as ``kafka.tools.StorageTool``."""
        return self._java("256m", [], main_class, arguments)

    def _java(
        self, heap: str, options: Iterable[str], main_class: str, arguments: Iterable[str | Path]
    ) -> list[str | Path]:
        if self.recipe.logging == "log4j2":
            logging = f"-Dlog4j2.configurationFile={self.shared / 'log4j2.properties'}"
        else:
            logging = f"-Dlog4j.configuration={(self.shared / 'log4j.properties').as_uri()}"
        jvm = [f"-Xmx{heap}", *JVM_OPTIONS, *self.classes, logging, *options]
        return [self.java, *jvm, "-cp", f"{self.jars}/*", main_class, *arguments]


def write_logging(folder: Path, level: str, log_levels: Mapping[str, str] | None = None) -> None:
    """Write the configurations of both loggers: messages of ``level`` and above go to the standard output.

    ``log_levels`` are levels of single loggers, by name.
    """
    single = list(enumerate((log_levels or {}).items()))
    log4j = [f"log4j.logger.{name}={own}\n" for _, (name, own) in single]
    log4j2 = [f"logger.l{number}.name={name}\nlogger.l{number}.level={own}\n" for number, (name, own) in single]
    (folder / "log4j.properties").write_text(LOG4J.format(level=level) + "".join(log4j))
    (folder / "log4j2.properties").write_text(LOG4J2.format(level=level) + "".join(log4j2))


def format_arguments(config: ClusterConfig, properties: Path, cluster_id: str) -> list[str | Path]:
    """Return the arguments of ``StorageTool format`` for one KRaft node."""
    arguments: list[str | Path] = ["format", "-t", cluster_id, "-c", properties]
    if config.release_version:
        arguments += ["--release-version", config.release_version]
    arguments += feature_arguments(config.features)
    for name, password in config.users.items() if config.scram else ():
        arguments += ["--add-scram", f"{config.scram}=[name={name},password={password}]"]
    return arguments


def features_command(recipe: Recipe, arguments: tuple[str, ...], bootstrap: str) -> tuple[str, tuple[str, ...]]:
    """Return the main class and the arguments of ``kafka-features``, with these brokers unless they name others."""
    if recipe.features_tool is None:
        raise LocalKafkaError(f"Kafka {recipe.version} has no kafka-features: it came with 2.7 (KIP-584)")
    if not any(argument.startswith("--bootstrap-") for argument in arguments):
        arguments = ("--bootstrap-server", bootstrap, *arguments)
    return recipe.features_tool, arguments


def feature_arguments(levels: Mapping[str, int]) -> list[str]:
    """Return the levels in the form of ``--feature``."""
    return [word for name, level in levels.items() for word in ("--feature", f"{name}={level}")]


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

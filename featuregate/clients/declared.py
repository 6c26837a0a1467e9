"""Reads clients from what declares them: requirements, ``npm ls --json``, go.mod, a pom, the name of a jar. Pure.

Only clients of Kafka are read. A client without one exact version has an empty version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError, fromstring

from featuregate.catalog.clients import client_rows
from featuregate.clients.fit import Client
from featuregate.clients.neighbours import neighbours
from featuregate.errors import ConfigError

PYTHON: Final = ("confluent-kafka", "kafka-python", "aiokafka", "pyspark")
"""The packages of PyPI that are clients of Kafka, or bring one."""
NODE: Final = ("kafkajs", "node-rdkafka", "kafka-node", "@confluentinc/kafka-javascript")
GO: Final = {
    "github.com/twmb/franz-go": "franz-go",
    "github.com/IBM/sarama": "sarama",
    "github.com/Shopify/sarama": "sarama",
    "github.com/segmentio/kafka-go": "kafka-go",
    "github.com/confluentinc/confluent-kafka-go": "confluent-kafka-go",
}
JAVA: Final = ("kafka-clients", "connect-runtime", "flink-connector-kafka")
_PINNED: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*(?:(===?)\s*([^\s;,#\\]+))?")
_REQUIRED: Final = re.compile(
    r"^(?!.*=>)[ \t]*(?:require[ \t]+)?(github\.com/[\w./-]+?)(?:/v\d+)?[ \t]+v(\d\S*)", re.MULTILINE
)
_REPLACED: Final = re.compile(
    r"^[ \t]*(?:replace[ \t]+)?(\S+?)(?:/v\d+)?(?:[ \t]+v(\S+))?[ \t]+=>[ \t]+(\S+?)(?:/v\d+)?(?:[ \t]+v(\S+))?[ \t]*$",
    re.MULTILINE,
)
"""A module, of one version or of all, and the module that is built in its place; a folder has no version."""
_PROPERTY: Final = re.compile(r"\$\{(.+)\}")
_JAR: Final = re.compile(
    r"(?:^|/)(kafka-clients|connect-runtime|flink-(?:sql-)?connector-kafka(?:_2\.\d+)?)-(\d[\w.-]*?)\.jar$"
)
_DEEPEST: Final = 100


def client(name: str, version: str, found_in: str = "") -> Client:
    """Return a client with the library in it, as measured of this release or of both around it.

    A measured release has the version of the table: ``4.0`` is 4.0.0.
    """
    around = neighbours(client_rows(name), version, lambda row: row.version)
    libraries = {library for row in around for library in row.bundles.items()}
    known = around[0].version if len(around) == 1 else version
    return Client(name=name, version=known, found_in=found_in, library=libraries.pop() if len(libraries) == 1 else None)


def python_packages(versions: Mapping[str, str], found_in: str) -> tuple[Client, ...]:
    """Return the clients among Python packages, by name and version."""
    by_name = {normalized(name): version for name, version in versions.items()}
    return tuple(client(name, by_name[name], found_in) for name in PYTHON if name in by_name)


def normalized(name: str) -> str:
    """Return the name of a Python package as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(text: str, found_in: str) -> tuple[Client, ...]:
    """Return the clients of a requirements file. One that is not pinned with ``==`` has no version."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _PINNED.match(line.partition("#")[0])
        if match and not line.lstrip().startswith("-"):
            found[normalized(match.group(1))] = match.group(3) or ""
    return python_packages(found, found_in)


def declared(name: str, read: Callable[[], str]) -> tuple[Client, ...]:
    """Return the clients that a file declares, by its name; the content is read where the name does not suffice.

    Raises
    ------
    ConfigError
        Files of this name are not read, or the content is not what the name promises.
    """
    if jar := _JAR.search(name):
        return (client(_java(jar.group(1)), jar.group(2), name),)
    if name.endswith("go.mod"):
        return tuple(_of_go_mod(read(), name))
    if name.endswith((".pom", "pom.xml")):
        return tuple(dict.fromkeys(_of_pom(read(), name)))
    if name.endswith(".json"):
        return tuple(dict.fromkeys(_of_npm(_json(name, read()), name, 0)))
    raise ConfigError(name, "expected go.mod, pom.xml, .pom, the output of 'npm ls --json' as .json, or a client's jar")


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(name, f"this is not the output of 'npm ls --json': {error}") from error


def _of_npm(tree: Any, found_in: str, depth: int) -> Iterator[Client]:
    packages = tree.get("dependencies") if isinstance(tree, dict) else None
    if not isinstance(packages, dict) or depth > _DEEPEST:
        return
    for name, package in packages.items():
        version = package.get("version") if isinstance(package, dict) else None
        if name in NODE:
            yield client(name, version if isinstance(version, str) else "", found_in)
        yield from _of_npm(package, found_in, depth + 1)


def _of_go_mod(text: str, found_in: str) -> Iterator[Client]:
    """Yield the clients that are built: what a module is replaced by counts; of a fork no version is known."""
    lines = re.sub(r"//.*", "", text)
    replaced = {(old, of): (new, version) for old, of, new, version in _REPLACED.findall(lines)}
    for module, required in _REQUIRED.findall(lines):
        same = (module, required)
        built, version = replaced.get((module, required), replaced.get((module, ""), same))
        if module in GO:
            yield client(GO.get(built, GO[module]), version if built in GO else "", found_in)


def _of_pom(text: str, found_in: str) -> Iterator[Client]:
    """Yield the clients among the dependencies; a version may stand in a property, or in what the pom manages."""
    project = _xml(text, found_in)
    properties = {each.tag: _text(each) for parent in project.iter("properties") for each in parent}
    parents = project.iter("dependencyManagement")
    managed = dict.fromkeys(each for parent in parents for each in parent.iterfind("dependencies/dependency"))
    known = dict(_artifact(each, properties) for each in managed)
    for dependency in project.iter("dependency"):
        artifact, version = _artifact(dependency, properties)
        if artifact in JAVA and (dependency not in managed or version):
            yield client(artifact, version or known.get(artifact, ""), found_in)


def _xml(text: str, found_in: str) -> Element:
    """Return the root of a pom, with names as they stand in it whether or not it declares Maven's namespace."""
    try:
        root = fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text.removeprefix("\ufeff")))  # noqa: S314 - expat bounds entities
    except (ParseError, ValueError) as error:
        raise ConfigError(found_in, f"this is not the XML of a pom: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _artifact(dependency: Element, properties: Mapping[str, str]) -> tuple[str, str]:
    """Return name and version; an exclusion in the dependency has fields of its own."""
    version = _text(dependency.find("version"))
    for _ in range(_DEEPEST):
        if (named := _PROPERTY.fullmatch(version)) is None:
            break
        version = properties.get(named[1], "")
    return _java(_text(dependency.find("artifactId"))), "" if version.startswith("$") else version


def _text(element: Element | None) -> str:
    return ((element.text if element is not None else None) or "").strip()


def _java(artifact: str) -> str:
    """Return the name of a package of Maven without the version of Scala; Flink's fat jar is as its connector."""
    return re.sub(r"_2\.\d+$", "", artifact).replace("flink-sql-connector", "flink-connector")

"""How exporters spell the metrics of brokers about clients: one entry of a table for each spelling. Pure.

A broker has a few MBeans: requests by API and version (KIP-272), deprecated requests with the software of the client
(KIP-896), connections by software (KIP-511), and its start. Each set of published rules writes them in another way, and
some of them mangle those with many keys: a rule for two keys puts the others into a name or a value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from featuregate.catalog.apis import API_NAMES, FORMER_API_NAMES
from featuregate.catalog.clients import client_rows, measured_clients

UNKNOWN: Final = "unknown"
"""What a broker calls the software, and its version, of a client that does not name them (KIP-511)."""
NAMELESS: Final = "clients without a name"
_PARTS: Final = ("FetchConsumer", "FetchFollower", "AddPartitionsToTxnVerification")
"""Names in these metrics that are not of an API: parts of Fetch, and what a broker asks of another one."""


class Requests(NamedTuple):
    """The requests of an API and version that a broker has answered since it started."""

    api: str
    version: int


class Deprecated(NamedTuple):
    """Those of a version that the broker calls deprecated, of one software."""

    api: str
    version: int
    software: str
    software_version: str

    @property
    def client(self) -> str:
        """Who sent them."""
        return NAMELESS if self.software == UNKNOWN else f"{self.software} {self.software_version}"


class Connected(NamedTuple):
    """The connections of one software to a listener, at one network thread."""

    software: str
    software_version: str
    listener: str
    thread: str


class Started(NamedTuple):
    """When the broker started, by the clock of its machine."""

    source: str
    """What started, of `SOURCES`: the values of two sources differ by seconds."""
    broker: str
    """The id of the broker, if the metric has it."""

    def seconds(self, value: float) -> float:
        """Return a value in seconds since the epoch."""
        return value / SOURCES[self.source]


class ScrapeFailed(NamedTuple):
    """Whether the exporter has failed to read all of the broker: above 0, some of the metrics may be missing."""

    metric: str
    """The name."""


class Converted(NamedTuple):
    """The messages of a topic that the broker converted, because a client is old or a topic is compressed."""

    call: str
    topic: str


class Unusable(NamedTuple):
    """A metric of these of which the rules of the exporter dropped a label."""

    lacks: str


Meaning = Requests | Deprecated | Connected | Started | ScrapeFailed | Converted | Unusable
Labels = Mapping[str, str]
SOURCES: Final = {"kafkaserverappinfostarttimems": 1000, "javalangruntimestarttime": 1000, "processstarttimeseconds": 1}
"""The starts of a broker, the best first, with their units in a second. The last one may be of an exporter with a
process of its own."""


# ---------------------------------------------------------------- what labels say

_OWN: Final = re.compile(
    r"__name__|(?:exported_)?(?:name|listener|topic|request\w*|version|api_?\w+|client_?software_?\w+)",
    re.IGNORECASE | re.ASCII,
)
_RENAMED: Final = "exported_"
_MANGLED: Final = re.compile(r"request_(\w+?)_version_(\d+)_clientSoftwareName", re.ASCII | re.IGNORECASE)
_VERSION: Final = re.compile(r"\d{1,5}", re.ASCII)
_BETWEEN: Final = re.compile("_clientsoftwareversion_|_listener_|_networkprocessor_", re.IGNORECASE)


def own_labels(labels: Labels) -> dict[str, str]:
    """Return the labels that say what a series is about, and not of which target or network thread it is."""
    return {name: value for name, value in labels.items() if _OWN.fullmatch(name)}


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _fields(labels: Labels) -> dict[str, str]:
    """Return what labels say, by names without case and underscores: rules write clientSoftwareName in four ways.

    A rule for few keys puts the others into a value, ``{request="Fetch, version=3, .."}``, or into the name of a label,
    ``{request_Fetch_version_3_clientSoftwareName="librdkafka",clientSoftwareVersion="1.9.2"}``.
    """
    # Prometheus renames a label that the target has, too, by its own configuration: such as a version of a pod.
    renamed = {name.removeprefix(_RENAMED): text for name, text in labels.items() if name.startswith(_RENAMED)}
    labels = {**labels, **renamed}
    fields = {_folded(name): value for name, value in labels.items()}
    for label, value in labels.items():
        if mangled := _MANGLED.fullmatch(label):
            fields |= {"request": mangled[1], "version": mangled[2], "clientsoftwarename": value}
    first, *others = fields.get("request", "").split(", ")
    for name, _, value in (part.partition("=") for part in others):
        fields |= {_folded(name): value, "request": first}
    for name, other in (("request", "apiname"), ("version", "apiversion")):
        if other in fields:
            fields.setdefault(name, fields[other])
    return fields


def _requests(fields: Labels) -> Requests | Unusable:
    for label in ("request", "version"):
        if not fields.get(label):
            return Unusable(label)
    if not _VERSION.fullmatch(fields["version"]):
        return Unusable("a version that is a number")
    return Requests(_api_names().get(fields["request"].lower(), fields["request"]), int(fields["version"]))


def _deprecated(fields: Labels) -> Deprecated | Unusable | None:
    """Return a software with dots: names and versions have no underscores (KIP-511), which some exporters write."""
    if not {"request", "version"} <= fields.keys():
        return None
    pair = _requests(fields)
    if isinstance(pair, Unusable):
        return pair
    name, version = (fields.get(f"clientsoftware{each}") or UNKNOWN for each in ("name", "version"))
    return Deprecated(*pair, name.replace("_", "."), version.replace("_", "."))


def _connected(fields: Labels) -> Connected | Unusable | None:
    if not fields.keys() & {"clientsoftwarename", "clientsoftwareversion"}:
        return None
    for label in ("clientSoftwareName", "clientSoftwareVersion", "listener"):
        if label.lower() not in fields:
            return Unusable(label)
    name, version, listener = fields["clientsoftwarename"], fields["clientsoftwareversion"], fields["listener"]
    return Connected(name, version, listener, fields.get("networkprocessor", ""))


def _in_name(fields: Labels) -> Connected | Unusable:
    """Read a name in which each dot and dash of the four values became an underscore, and capitals were lost.

    A client that calls itself as the rules write a name hides what is which: that is not known.
    """
    parts = _BETWEEN.split(fields["inname"])
    if len(parts) != len(Connected._fields):
        return Unusable("clientSoftwareName")
    name, version, listener, thread = parts
    version = re.sub(r"(?<=\d)_(?=\d)", ".", version).replace("_", "-")
    return Connected(_known_software().get(name, name), version, listener, thread)


@functools.cache
def _known_software() -> dict[str, str]:
    names = {name for client in measured_clients() for row in client_rows(client) for name, _ in row.software}
    return {re.sub(r"[-.]", "_", name).lower(): name for name in names}


@functools.cache
def _api_names() -> dict[str, str]:
    """Return the names by their lower case, in which some rules write them; former names have the present one."""
    former = {name.lower(): API_NAMES[key] for name, key in FORMER_API_NAMES.items()}
    return former | {name.lower(): name for name in (*_PARTS, *API_NAMES.values())}


def _started(fields: Labels) -> Started:
    source, broker = fields["source"], fields.get("id", "")
    return Started(source, broker if broker.isdecimal() and "app" in source else "")


def _converted(fields: Labels) -> Converted | None:
    return Converted(fields["call"].lower(), fields["topic"]) if fields.get("topic") else None


def _by_label(fields: Labels) -> Meaning | None:
    """Read a metric that has all kinds under one name: as if its label ``name`` stood in the name."""
    kind = fields.get("name", "")
    return meaning_of(fields["bean"] + kind, fields) if kind in KINDS.split("|") else None


KINDS: Final = "RequestsPerSec|DeprecatedRequestsPerSec|FetchMessageConversionsPerSec|ProduceMessageConversionsPerSec|"
"""What that label says, as a regular expression; empty for all others."""


# ---------------------------------------------------------------- what names say

_R: Final = "kafka_network_requestmetrics_"
_S: Final = "kafka_server_socket_?server_?metrics_"
_T: Final = "kafka_server_brokertopicmetrics_"
_SPELLINGS: Final[Mapping[str, Callable[[Labels], Meaning | None]]] = {
    f"(?P<bean>{_R}|{_T})count(?:_total)?": _by_label,  # jmx_exporter without rules, MSK
    f"{_R}requests_total": _requests,  # jmx_exporter's examples, Strimzi's rules
    f"{_R}requestspersec_total": _requests,  # Strimzi's Metrics Reporter
    f"{_R}requestspersec(?:_count)?": _requests,  # Confluent's, Grafana's and Bitnami's rules
    f"{_R}deprecatedrequests_total": _deprecated,  # jmx_exporter's examples, Strimzi's rules
    f"{_R}deprecatedrequestspersec_total": _deprecated,  # Strimzi's Metrics Reporter
    f"{_R}deprecatedrequestspersec(?:_count(?:_total)?)?": _deprecated,  # Confluent's and Bitnami's rules
    rf"{_R}deprecatedrequestspersec_request_(?P<request>[a-z]+)_version_(?P<version>\d+)": _deprecated,  # Grafana's
    f"{_S}connections(?:_software)?": _connected,  # all but the next one
    f"{_S}clientsoftwarename_(?P<inname>.+)_connections": _in_name,  # jmx_exporter's example for KRaft
    "kafka_server_app_?info_start_?time_?ms": _started,  # no rules, Strimzi's Metrics Reporter
    "java_lang_runtime_starttime": _started,  # rules that keep java.lang
    "process_start_time_seconds": _started,  # an exporter that runs in the broker
    "jmx_scrape_error": lambda fields: ScrapeFailed(fields["source"]),  # jmx_exporter
    f"{_T}(?P<call>fetch|produce)messageconversions(?:persec)?(?:_count)?(?:_total)?": _converted,  # all others
}
"""The spellings, of jmx_exporter 0.20.0, 1.0.1 and 1.6.0 where it is not said otherwise. MSK's is from public pages
and was not measured. Groups are fields that stand in the name."""
NAMES: Final = "(?i)" + "|".join(_SPELLINGS)
"""All of these names as one regular expression, which is of RE2, too."""
CONNECTED: Final = "(?i)" + "|".join(name for name, read in _SPELLINGS.items() if read in (_connected, _in_name))
"""Likewise those of connected software."""
_READERS: Final = [(re.compile(name, re.IGNORECASE | re.ASCII), read) for name, read in _SPELLINGS.items()]


@functools.lru_cache(maxsize=4096)  # a hostile page has a million names
def spelled_as(name: str) -> tuple[Callable[[Labels], Meaning | None], re.Match[str]] | None:
    """Return what reads a metric of this name, with the fields that stand in the name; None for any other one."""
    found = ((read, pattern.fullmatch(name)) for pattern, read in _READERS)
    return next(((read, match) for read, match in found if match), None)


def meaning_of(name: str, labels: Labels) -> Meaning | None:
    """Return what a sample is about; None for any other metric."""
    if (found := spelled_as(name)) is None:
        return None
    read, match = found
    return read(_fields(labels) | match.groupdict() | {"source": _folded(name)})

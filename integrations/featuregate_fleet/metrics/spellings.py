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

from featuregate.catalog.api_names import API_NAMES, FORMER_API_NAMES
from featuregate.catalog.clients import client_rows, measured_clients

UNKNOWN: Final = "unknown"
"""What a broker calls the software, and its version, of a client that does not name them (KIP-511)."""
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


class Connected(NamedTuple):
    """The connections of one software to a listener, at one network thread."""

    software: str
    software_version: str
    listener: str
    thread: str


class Started(NamedTuple):
    """When the broker started, in seconds since the epoch, by the clock of its machine."""

    source: str
    """What started: the values of two sources differ by seconds."""
    broker: str
    """The id of the broker, if the metric has it."""


class Converted(NamedTuple):
    """The messages of a topic that the broker converted, because a client is old or a topic is compressed."""

    call: str
    topic: str


class Unusable(NamedTuple):
    """A metric of these of which the rules of the exporter dropped a label."""

    lacks: str


Meaning = Requests | Deprecated | Connected | Started | Converted | Unusable
Labels = Mapping[str, str]


class Spelling(NamedTuple):
    """One way to write one metric."""

    name: re.Pattern[str]
    exporters: str
    read: Callable[[re.Match[str], Labels], Meaning | None]


def _spelling(name: str, exporters: str, read: Callable[[re.Match[str], Labels], Meaning | None]) -> Spelling:
    return Spelling(re.compile(name, re.IGNORECASE | re.ASCII), exporters, read)


def meaning_of(name: str, labels: Labels) -> Meaning | None:
    """Return what a sample is about; None for any other metric."""
    found = spelled_as(name)
    return found[0].read(found[1], labels) if found else None


@functools.lru_cache(maxsize=4096)  # a hostile page has a million names
def spelled_as(name: str) -> tuple[Spelling, re.Match[str]] | None:
    """Return the spelling of a name, if it may be one of these metrics."""
    for spelling in SPELLINGS:
        if match := spelling.name.fullmatch(name):
            return spelling, match
    return None


def _folded(labels: Labels) -> dict[str, str]:
    """Return labels by names without case and underscores: rules write clientSoftwareName in four ways."""
    return {name.replace("_", "").lower(): value for name, value in labels.items()}


def _requests(_: re.Match[str], labels: Labels) -> Meaning | None:
    """Read ``request`` and ``version``; both may be in the value of the first: ``Fetch, version=3``."""
    fields = _fields(labels)
    for label in ("request", "version"):
        if label not in fields:
            return Unusable(label)
    return _pair(fields["request"], fields["version"])


def _deprecated(match: re.Match[str], labels: Labels) -> Meaning | None:
    """Read the four keys under the names that rules give them, all of them in one value, or three in a name."""
    fields = _fields(labels)
    if not fields.keys() & {"request", "apiname"}:
        return _mangled(match, labels)
    api, version = fields.get("request") or fields.get("apiname"), fields.get("version") or fields.get("apiversion")
    return _named(api, version, fields.get("clientsoftwarename"), fields.get("clientsoftwareversion"))


def _fields(labels: Labels) -> dict[str, str]:
    fields = _folded(labels)
    first, *others = fields.get("request", "").split(", ")
    split = dict(part.partition("=")[::2] for part in others if "=" in part)
    return {**fields, **_folded(split), **({"request": first} if first else {})}


def _by_name(match: re.Match[str], labels: Labels) -> Meaning | None:
    """Read the metric that has the requests of all kinds: its label ``name`` says which."""
    read = {"RequestsPerSec": _requests, "DeprecatedRequestsPerSec": _deprecated}.get(labels.get("name", ""))
    return read(match, labels) if read else None


_MANGLED: Final = re.compile(r"request_(\w+?)_version_(\d+)_clientSoftwareName", re.ASCII | re.IGNORECASE)


def _mangled(_: re.Match[str], labels: Labels) -> Meaning | None:
    """Read ``{request_Fetch_version_3_clientSoftwareName="librdkafka",clientSoftwareVersion="1.9.2"}``."""
    for label, software in labels.items():
        if found := _MANGLED.fullmatch(label):
            return _named(found[1], found[2], software, _folded(labels).get("clientsoftwareversion"))
    return None


def _in_name(match: re.Match[str], labels: Labels) -> Meaning | None:
    """Read ``.._request_fetch_version_3{clientSoftwareName,clientSoftwareVersion}``."""
    fields = _folded(labels)
    return _named(match[1], match[2], fields.get("clientsoftwarename"), fields.get("clientsoftwareversion"))


def _without_dots(match: re.Match[str], labels: Labels) -> Meaning | None:
    """Put dots in place of underscores, which neither the name nor the version of a software may have (KIP-511)."""
    found = _deprecated(match, labels)
    if not isinstance(found, Deprecated):
        return found
    return Deprecated(found.api, found.version, *(each.replace("_", ".") for each in found[2:]))


def _connections(_: re.Match[str], labels: Labels) -> Meaning | None:
    fields = _folded(labels)
    if not fields.keys() & {"clientsoftwarename", "clientsoftwareversion"}:
        return None
    for label in ("clientSoftwareName", "clientSoftwareVersion", "listener"):
        if label.lower() not in fields:
            return Unusable(label)
    name, version, listener = fields["clientsoftwarename"], fields["clientsoftwareversion"], fields["listener"]
    return Connected(name, version, listener, fields.get("networkprocessor", ""))


def _connections_in_name(match: re.Match[str], _: Labels) -> Meaning:
    """Read a name in which each dot and dash of the four values became an underscore, and capitals were lost."""
    version = re.sub(r"(?<=\d)_(?=\d)", ".", match[2]).replace("_", "-")
    return Connected(_known_software().get(match[1], match[1]), version, match[3], match[4])


@functools.cache
def _known_software() -> dict[str, str]:
    names = {name for client in measured_clients() for row in client_rows(client) for name, _ in row.software}
    return {re.sub(r"[-.]", "_", name).lower(): name for name in names}


def _started(match: re.Match[str], labels: Labels) -> Meaning:
    broker = labels.get("id", "") if "app" in match[0].lower() else ""
    return Started(match[0].lower().replace("_", ""), broker if broker.isdecimal() else "")


def _converted(match: re.Match[str], labels: Labels) -> Meaning | None:
    topic = labels.get("topic")
    return Converted(match[1].lower(), topic) if topic else None


def _converted_by_name(_: re.Match[str], labels: Labels) -> Meaning | None:
    found = re.fullmatch(r"(Fetch|Produce)MessageConversionsPerSec", labels.get("name", ""))
    return _converted(found, labels) if found else None


def _named(api: str | None, version: str | None, software: str | None, of_software: str | None) -> Meaning | None:
    if api is None or version is None:
        return None
    pair = _pair(api, version)
    if not isinstance(pair, Requests):
        return pair
    return Deprecated(*pair, software or UNKNOWN, of_software or UNKNOWN)


_VERSION: Final = re.compile(r"\d{1,5}", re.ASCII)


def _pair(api: str, version: str) -> Requests | Unusable:
    if not _VERSION.fullmatch(version):
        return Unusable("a version that is a number")
    return Requests(_api_names().get(api.lower(), api), int(version))


@functools.cache
def _api_names() -> dict[str, str]:
    """Return the names by their lower case, in which some rules write them; former names have the present one."""
    former = {name.lower(): API_NAMES[key] for name, key in FORMER_API_NAMES.items()}
    return former | {name.lower(): name for name in (*_PARTS, *API_NAMES.values())}


_REQUESTS: Final = "kafka_network_requestmetrics_"
_SOCKETS: Final = "kafka_server_socket_?server_?metrics_"
_TOPICS: Final = "kafka_server_brokertopicmetrics_"
SPELLINGS: Final = (
    _spelling(f"{_REQUESTS}count(?:_total)?", "jmx_exporter without rules, MSK", _by_name),
    _spelling(f"{_REQUESTS}requests_total", "jmx_exporter's examples, Strimzi's rules", _requests),
    _spelling(f"{_REQUESTS}requestspersec_total", "Strimzi's Metrics Reporter", _requests),
    _spelling(f"{_REQUESTS}requestspersec(?:_count)?", "Confluent's, Grafana's and Bitnami's rules", _requests),
    _spelling(f"{_REQUESTS}deprecatedrequests_total", "jmx_exporter's examples, Strimzi's rules", _mangled),
    _spelling(f"{_REQUESTS}deprecatedrequestspersec_total", "Strimzi's Metrics Reporter", _without_dots),
    _spelling(
        f"{_REQUESTS}deprecatedrequestspersec(?:_count(?:_total)?)?",
        "Confluent's (also cp-ansible's) and Bitnami's rules",
        _deprecated,
    ),
    _spelling(rf"{_REQUESTS}deprecatedrequestspersec_request_([a-z]+)_version_(\d+)", "Grafana's rules", _in_name),
    _spelling(f"{_SOCKETS}connections(?:_software)?", "all but the next one", _connections),
    _spelling(
        rf"{_SOCKETS}clientsoftwarename_(.+)_clientsoftwareversion_(.+)_listener_(.+)_networkprocessor_(\d+)_connections",
        "jmx_exporter's example for KRaft",
        _connections_in_name,
    ),
    _spelling("kafka_server_app_?info_start_?time_?ms", "no rules, Strimzi's Metrics Reporter", _started),
    _spelling("java_lang_runtime_starttime", "rules that keep java.lang", _started),
    _spelling("process_start_time_seconds", "an exporter that runs in the broker", _started),
    _spelling(f"{_TOPICS}count", "no rules", _converted_by_name),
    _spelling(f"{_TOPICS}(fetch|produce)messageconversions(?:persec)?(?:_count)?(?:_total)?", "all others", _converted),
)
"""The spellings, of jmx_exporter 0.20.0, 1.0.1 and 1.6.0 where it is not said otherwise. MSK's is from public pages
and was not measured."""
NAMES: Final = "(?i)" + "|".join(each.name.pattern for each in SPELLINGS)
"""All of these names as one regular expression, which is of RE2, too."""
KINDS: Final = "(Deprecated)?RequestsPerSec|(Fetch|Produce)MessageConversionsPerSec|"
"""What the label ``name`` says of metrics that have all kinds under one name; empty for all others."""
_OWN: Final = re.compile(
    r"__name__|name|listener|topic|request\w*|version|api_?\w+|client_?software_?\w+",
    re.IGNORECASE | re.ASCII,
)


def own_labels(labels: Labels) -> dict[str, str]:
    """Return the labels that say what a series is about, and not of which target or network thread it is."""
    return {name: value for name, value in labels.items() if _OWN.fullmatch(name)}

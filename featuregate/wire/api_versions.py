"""ApiVersions (key 18): the API ranges and features of one broker.

KIP-35 has API ranges, KIP-511 adds the client's software, KIP-584 features as tagged fields, KIP-1242 (v5) the node
that the client expects. Source: ``ApiVersionsRequest.json`` and ``ApiVersionsResponse.json`` of Apache Kafka 4.4.0.

The response keeps the broker's values unchanged. A range without a version, such as (5, 2) or (-3, -1), is kept too: it
offers no version, so no gate opens because of it. Two ranges for one API or one feature are refused.
"""

import struct
from collections.abc import Mapping
from typing import Annotated, Final, Self

from featuregate.budgets import MOST_APIS, MOST_FEATURES
from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.kafka_errors import UNSUPPORTED_VERSION
from featuregate.patterns import pattern
from featuregate.values import field
from featuregate.wire.message import Request, Response
from featuregate.wire.readers import Reader
from featuregate.wire.schema import Before, Boolean, Int16, Int32, Int64, Scalar, Tag, Versions, structure
from featuregate.wire.writers import Writer

IDENTITY_FROM: Final = 5
"""From this version on a request names the node that the client expects, and a broker compares the ids (KIP-1242)."""

_SOFTWARE: Final = pattern(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""``ApiVersionsRequest.SUPPORTED_CLIENT_SOFTWARE_...PATTERN``; a broker answers INVALID_REQUEST to anything else."""
_NOT_SOFTWARE: Final = pattern(r"[^a-zA-Z0-9\-.]+")
_LONGEST_SOFTWARE: Final = 128

_API_RANGE: Final = struct.Struct(">hhh")
_API_RANGE_UNTAGGED: Final = struct.Struct(">hhhx")
"""In flexible versions: with the byte of an empty list of tagged fields."""
_LEVELS: Final = struct.Struct(">hh")
_SMALLEST_FEATURE: Final = 6
_ONE_BYTE_LENGTHS: Final = 128
"""Varints below this are one byte long."""


def fit_software(text: str) -> str:
    """Make a text fit Kafka's rule for the name and the version of client software.

    A text that fits is unchanged, up to 128 characters: brokers use these strings as tags of metrics. Each run of
    characters that are not allowed becomes one ``-``; a text without allowed characters becomes ``unknown``.
    """
    return _NOT_SOFTWARE.sub("-", text).strip("-.")[:_LONGEST_SOFTWARE].strip("-.") or "unknown"


def _write_software(writer: Writer, text: str, name: str) -> None:
    if not _SOFTWARE.fullmatch(text):
        raise writer.error(f"{text!r} does not match {_SOFTWARE.pattern}, brokers refuse it", name)
    writer.string(text, name)


def _read_classic_ranges(reader: Reader, label: str) -> dict[int, tuple[int, int]]:
    start = reader.at
    count = reader.count(label, _API_RANGE.size, MOST_APIS)
    at = reader.take(count * _API_RANGE.size, label)
    swept = _API_RANGE.iter_unpack(reader.buffer[at : reader.at])
    return _each_once(reader, label, start, count, {key: (lowest, highest) for key, lowest, highest in swept})


def _read_flexible_ranges(reader: Reader, label: str) -> dict[int, tuple[int, int]]:
    """Read the list of APIs, about 75 elements: in one call where no element has tagged fields."""
    start = reader.at
    count = reader.count(label, _API_RANGE_UNTAGGED.size, MOST_APIS)
    swept = reader.buffer[reader.at : reader.at + count * _API_RANGE_UNTAGGED.size]
    if swept[_API_RANGE.size :: _API_RANGE_UNTAGGED.size].strip(b"\0"):
        api_ranges = _read_tagged_ranges(reader, label, count)
    else:
        reader.take(len(swept), label)
        api_ranges = {key: (lowest, highest) for key, lowest, highest in _API_RANGE_UNTAGGED.iter_unpack(swept)}
    return _each_once(reader, label, start, count, api_ranges)


def _read_tagged_ranges(reader: Reader, label: str, count: int) -> dict[int, tuple[int, int]]:
    """Read the list of APIs element by element, and skip the tagged fields of elements."""
    api_ranges = {}
    for _ in range(count):
        key = reader.int16(label)
        api_ranges[key] = reader.int16(label), reader.int16(label)
        reader.tagged()
    return api_ranges


def _each_once(
    reader: Reader, label: str, start: int, count: int, api_ranges: dict[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    if len(api_ranges) != count:
        raise reader.error("an API is listed twice", label, start)
    return api_ranges


def _write_ranges(writer: Writer, api_ranges: Mapping[int, tuple[int, int]], label: str) -> None:
    writer.length(len(api_ranges))
    for key, (lowest, highest) in api_ranges.items():
        writer.int16(key, label)
        writer.int16(lowest, label)
        writer.int16(highest, label)
        writer.tags({})


def _read_features(reader: Reader, name: str) -> dict[str, tuple[int, int]]:
    """Read a list of features, each a name and two levels.

    An element without tagged fields and with a name shorter than 127 bytes, the usual case, is read in one step.
    `_read_feature` reads any other field by field, and reports errors.
    """
    start = reader.at
    features: dict[str, tuple[int, int]] = {}
    count = reader.count(name, _SMALLEST_FEATURE, MOST_FEATURES)
    buffer, at, last = reader.buffer, reader.at, reader.end - _SMALLEST_FEATURE
    for _ in range(count):
        levels_at = at + buffer[at] if at <= last else at
        tags_at = levels_at + _LEVELS.size
        if at < levels_at < at + _ONE_BYTE_LENGTHS and tags_at < reader.end and not buffer[tags_at]:
            try:
                feature = buffer[at + 1 : levels_at].decode()
            except UnicodeDecodeError as error:
                raise reader.error("not UTF-8", name, at + 1 + error.start) from None
            features[feature] = _LEVELS.unpack_from(buffer, levels_at)
            at = tags_at + 1
        else:
            reader.at = at
            feature, levels = _read_feature(reader, name)
            features[feature] = levels
            at = reader.at
    reader.at = at
    if len(features) != count:
        raise reader.error("a feature is listed twice", name, start)
    return features


def _read_feature(reader: Reader, name: str) -> tuple[str, tuple[int, int]]:
    """Read one feature of any size, and skip its tagged fields."""
    feature = reader.string(name)
    levels = reader.int16(name), reader.int16(name)
    reader.tagged()
    return feature, levels


def _read_highest_first(reader: Reader, label: str) -> dict[str, tuple[int, int]]:
    return {name: (lowest, highest) for name, (highest, lowest) in _read_features(reader, label).items()}


def _write_features(writer: Writer, features: Mapping[str, tuple[int, int]], label: str) -> None:
    writer.length(len(features))
    for feature, (first, second) in features.items():
        writer.string(feature, label)
        writer.int16(first, label)
        writer.int16(second, label)
        writer.tags({})


def _write_highest_first(writer: Writer, features: Mapping[str, tuple[int, int]], label: str) -> None:
    _write_features(writer, {name: (highest, lowest) for name, (lowest, highest) in features.items()}, label)


_Software = Annotated[str, Scalar("string", Reader.string, _write_software, 1)]
_ApiRanges = Annotated[
    Mapping[int, tuple[int, int]],
    Scalar("api_keys", _read_flexible_ranges, _write_ranges, 1),
    Before(3, Scalar("api_keys", _read_classic_ranges, _write_ranges, 4)),
]
_Supported = Annotated[Mapping[str, tuple[int, int]], Scalar("supported_features", _read_features, _write_features, 1)]
_Finalized = Annotated[
    Mapping[str, tuple[int, int]], Scalar("finalized_features", _read_highest_first, _write_highest_first, 1)
]


@structure
class ApiVersionsResponse(Response, api=(18, "ApiVersions"), versions=(0, 5), flexible_from=3):
    """The API ranges and features of one broker, or an error code."""

    error_code: Int16
    """35: the broker does not support this version (the body is v0 then); 42: the software names do not fit, or one of
    the two ids is missing; 129: another cluster or node than expected."""
    api_ranges: _ApiRanges
    """API key to the lowest and the highest version that the broker advertises."""
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    supported: Annotated[_Supported, Tag(0), Versions(3)] = field(default_factory=dict)
    """Feature name to the lowest and the highest level that the broker can run. v3 hides those whose lowest is 0."""
    epoch: Annotated[Int64, Tag(1), Versions(3)] = -1
    """Orders ``finalized``; where it is -1, for unknown, ``finalized`` has no meaning."""
    finalized: Annotated[_Finalized, Tag(2), Versions(3)] = field(default_factory=dict)
    """Feature name to the lowest and the highest level that the cluster agreed on."""
    zk_migration_ready: Annotated[Boolean, Tag(3), Versions(3)] = False

    @classmethod
    def header_version(cls, version: int) -> int:
        """Return 0 for every version: a client that sent a newer version must be able to read it (KIP-511)."""
        cls.is_flexible(version)
        return 0

    @classmethod
    def decode_answer(cls, asked: int, body: bytes) -> tuple[Self, int]:
        """Decode the response to a request of version ``asked``, and return it with the version of its body.

        The error code comes first (KIP-35). A broker that does not support the version answers error 35, and lists its
        versions in v0. The bytes after the code are not v0 in librdkafka's mock cluster; a body that does not parse
        counts as one that lists no version.
        """
        if body[:2] != UNSUPPORTED_VERSION.to_bytes(2, "big"):
            return cls.decode(asked, body), asked
        try:
            return cls.decode(0, body), 0
        except RemoteWireError:
            return cls(error_code=UNSUPPORTED_VERSION, api_ranges={}), 0


@structure
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """Request the API ranges and features of a broker, which answers before authentication."""

    client_software_name: Annotated[_Software, Versions(3)] = ""
    """Must fit Kafka's rule, see `fit_software`."""
    client_software_version: Annotated[_Software, Versions(3)] = ""
    """Must fit Kafka's rule, see `fit_software`."""
    cluster_id: Annotated[str | None, Versions(5)] = None
    """The expected cluster, together with ``node_id``."""
    node_id: Annotated[Int32, Versions(5)] = -1
    """The expected node; -1 for none."""

    def encode(self, version: int) -> bytes:
        """Encode the body; raises `LocalWireError` for one id of two, which brokers refuse."""
        if version >= IDENTITY_FROM and (self.cluster_id is None) != (self.node_id == -1):
            problem = "give both a cluster id and a node id, or neither"
            raise LocalWireError(f"{self._title(version)}: cluster_id, node_id: {problem}")
        return Request.encode(self, version)

"""ApiVersions (key 18): the API ranges and features of one broker.

KIP-35 has API ranges, KIP-511 adds the client's software, KIP-584 features as tagged fields, KIP-1242 (v5) the node
that the client expects. Source: ``ApiVersionsRequest.json`` and ``ApiVersionsResponse.json`` of Apache Kafka 4.4.0.

The response keeps the broker's values unchanged. A range without a version, such as (5, 2) or (-3, -1), is kept too: it
offers no version, so no gate opens because of it. Two ranges for one API or one feature are refused.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from featuregate.errors import RemoteWireError
from featuregate.kafka_errors import UNSUPPORTED_VERSION
from featuregate.wire.message import Request, Response
from featuregate.wire.writers import FlexibleWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from featuregate.wire.readers import Reader
    from featuregate.wire.writers import Writer

__all__ = ["ApiVersionsRequest", "ApiVersionsResponse", "fit_software"]

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""``ApiVersionsRequest.SUPPORTED_CLIENT_SOFTWARE_...PATTERN``; a broker answers INVALID_REQUEST to anything else."""
_NOT_SOFTWARE: Final = re.compile(r"[^a-zA-Z0-9\-.]+")
_LONGEST_SOFTWARE: Final = 128

_SOFTWARE_FROM: Final = 3
_IDENTITY_FROM: Final = 5
_THROTTLE_FROM: Final = 1

_SUPPORTED, _EPOCH, _FINALIZED, _ZK_MIGRATION_READY = range(4)
"""The tags of the response."""
_API_RANGE: Final = struct.Struct(">hhh")
_API_RANGE_UNTAGGED: Final = struct.Struct(">hhhx")
"""In flexible versions: with the byte of an empty list of tagged fields."""
_LEVELS: Final = struct.Struct(">hh")
_INT64: Final = struct.Struct(">q")
_SMALLEST_FEATURE: Final = 6
_ONE_BYTE_LENGTHS: Final = 128
"""Varints below this are one byte long."""


def fit_software(text: str) -> str:
    """Make a text fit Kafka's rule for the name and the version of client software.

    A text that fits is unchanged, up to 128 characters: brokers use these strings as tags of metrics. Each run of
    characters that are not allowed becomes one ``-``; a text without allowed characters becomes ``unknown``.
    """
    return _NOT_SOFTWARE.sub("-", text).strip("-.")[:_LONGEST_SOFTWARE].strip("-.") or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse(Response):
    """The API ranges and features of one broker, or an error code."""

    API_KEY: ClassVar = 18
    NAME: ClassVar = "ApiVersions"
    VERSIONS: ClassVar = (0, 5)
    FLEXIBLE_FROM: ClassVar = 3

    error_code: int
    """35: the broker does not support this version (the body is v0 then); 42: the software names do not fit, or one of
    the two ids is missing; 129: another cluster or node than expected."""
    api_ranges: Mapping[int, tuple[int, int]]
    """API key to the lowest and the highest version that the broker advertises."""
    throttle_time_ms: int = 0
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Feature name to the lowest and the highest level that the broker can run. v3 hides those whose lowest is 0."""
    epoch: int = -1
    """Orders ``finalized``; where it is -1, for unknown, ``finalized`` has no meaning."""
    finalized: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Feature name to the lowest and the highest level that the cluster agreed on."""
    zk_migration_ready: bool = False
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

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

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16("error_code")
        api_ranges = _read_api_ranges(reader, version)
        throttle_time_ms = reader.int32("throttle_time_ms") if version >= _THROTTLE_FROM else 0
        tagged = dict(reader.tagged())
        supported: dict[str, tuple[int, int]] = {}
        finalized: dict[str, tuple[int, int]] = {}
        epoch = -1
        zk_migration_ready = False
        if part := tagged.pop(_SUPPORTED, None):
            supported = _read_features(part, "supported_features")
        if part := tagged.pop(_EPOCH, None):
            epoch = part.int64("finalized_features_epoch")
            part.finish()
        if part := tagged.pop(_FINALIZED, None):
            levels = _read_features(part, "finalized_features")
            finalized = {name: (lowest, highest) for name, (highest, lowest) in levels.items()}
        if part := tagged.pop(_ZK_MIGRATION_READY, None):
            zk_migration_ready = part.boolean("zk_migration_ready")
            part.finish()
        return cls(
            error_code=error_code,
            api_ranges=api_ranges,
            throttle_time_ms=throttle_time_ms,
            supported=supported,
            epoch=epoch,
            finalized=finalized,
            zk_migration_ready=zk_migration_ready,
            unknown_tags={tag: part.rest() for tag, part in tagged.items()},
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code, "error_code")
        writer.length(len(self.api_ranges))
        for key, (lowest, highest) in self.api_ranges.items():
            writer.int16(key, "api_keys.api_key")
            writer.int16(lowest, "api_keys.min_version")
            writer.int16(highest, "api_keys.max_version")
            writer.tags({})
        if version >= _THROTTLE_FROM:
            writer.int32(self.throttle_time_ms, "throttle_time_ms")
        writer.tags({**self.unknown_tags, **self._known_tags(writer.message)})

    def _known_tags(self, message: str) -> dict[int, bytes]:
        """Encode the tagged fields that differ from their defaults, as Kafka's generated code does."""
        tags: dict[int, bytes] = {}
        if self.supported:
            tags[_SUPPORTED] = _write_features(self.supported, f"{message}: supported_features")
        if self.epoch != -1:
            epoch = FlexibleWriter(message)
            epoch.int64(self.epoch, "finalized_features_epoch")
            tags[_EPOCH] = bytes(epoch.out)
        if self.finalized:
            levels = {name: (highest, lowest) for name, (lowest, highest) in self.finalized.items()}
            tags[_FINALIZED] = _write_features(levels, f"{message}: finalized_features")
        if self.zk_migration_ready:
            tags[_ZK_MIGRATION_READY] = b"\x01"
        return tags


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """Request the API ranges and features of a broker, which answers before authentication."""

    API_KEY: ClassVar = 18
    NAME: ClassVar = "ApiVersions"
    VERSIONS: ClassVar = (0, 5)
    FLEXIBLE_FROM: ClassVar = 3
    RESPONSE = ApiVersionsResponse

    client_software_name: str = ""
    """v3 and newer; must fit Kafka's rule, see `fit_software`."""
    client_software_version: str = ""
    """v3 and newer; must fit Kafka's rule, see `fit_software`."""
    cluster_id: str | None = None
    """v5 and newer: the expected cluster, together with ``node_id``."""
    node_id: int = -1
    """v5 and newer: the expected node; -1 for none."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        name = software_version = ""
        cluster_id, node_id = None, -1
        if version >= _SOFTWARE_FROM:
            name = reader.string("client_software_name")
            software_version = reader.string("client_software_version")
        if version >= _IDENTITY_FROM:
            cluster_id = reader.nullable_string("cluster_id")
            node_id = reader.int32("node_id")
        return cls(
            client_software_name=name,
            client_software_version=software_version,
            cluster_id=cluster_id,
            node_id=node_id,
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        if version >= _SOFTWARE_FROM:
            _write_software(writer, self.client_software_name, "client_software_name")
            _write_software(writer, self.client_software_version, "client_software_version")
        if version >= _IDENTITY_FROM:
            if (self.cluster_id is None) != (self.node_id == -1):
                raise writer.error("give both a cluster id and a node id, or neither", "cluster_id, node_id")
            writer.nullable_string(self.cluster_id, "cluster_id")
            writer.int32(self.node_id, "node_id")
        writer.tags(self.unknown_tags)


def _write_software(writer: Writer, text: str, name: str) -> None:
    if not _SOFTWARE.fullmatch(text):
        raise writer.error(f"{text!r} does not match {_SOFTWARE.pattern}, brokers refuse it", name)
    writer.string(text, name)


def _read_api_ranges(reader: Reader, version: int) -> dict[int, tuple[int, int]]:
    """Read the list of APIs, about 75 elements: in one call where no element has tagged fields."""
    start = reader.at
    if version < ApiVersionsResponse.FLEXIBLE_FROM:
        count = reader.count("api_keys", _API_RANGE.size)
        at = reader.take(count * _API_RANGE.size, "api_keys")
        untagged = reader.buffer[at : reader.at]
        api_ranges = {key: (lowest, highest) for key, lowest, highest in _API_RANGE.iter_unpack(untagged)}
    else:
        count = reader.count("api_keys", _API_RANGE_UNTAGGED.size)
        swept = reader.buffer[reader.at : reader.at + count * _API_RANGE_UNTAGGED.size]
        if swept[_API_RANGE.size :: _API_RANGE_UNTAGGED.size].strip(b"\0"):
            api_ranges = _read_tagged_api_ranges(reader, count)
        else:
            reader.take(len(swept), "api_keys")
            swept_ranges = _API_RANGE_UNTAGGED.iter_unpack(swept)
            api_ranges = {key: (lowest, highest) for key, lowest, highest in swept_ranges}
    if len(api_ranges) != count:
        raise reader.error("an API is listed twice", "api_keys", start)
    return api_ranges


def _read_tagged_api_ranges(reader: Reader, count: int) -> dict[int, tuple[int, int]]:
    """Read the list of APIs element by element, and skip the tagged fields of elements."""
    api_ranges = {}
    for _ in range(count):
        key = reader.int16("api_keys.api_key")
        api_ranges[key] = reader.int16("api_keys.min_version"), reader.int16("api_keys.max_version")
        reader.tagged()
    return api_ranges


def _read_features(reader: Reader, name: str) -> dict[str, tuple[int, int]]:
    """Read a list of features, each a name and two levels, up to the end of the field.

    An element without tagged fields and with a name shorter than 127 bytes, the usual case, is read in one step.
    `_read_feature` reads any other field by field, and reports errors.
    """
    start = reader.at
    features: dict[str, tuple[int, int]] = {}
    count = reader.count(name, _SMALLEST_FEATURE)
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
    reader.finish()
    return features


def _read_feature(reader: Reader, name: str) -> tuple[str, tuple[int, int]]:
    """Read one feature of any size, and skip its tagged fields."""
    feature = reader.string(name)
    levels = reader.int16(name), reader.int16(name)
    reader.tagged()
    return feature, levels


def _write_features(features: Mapping[str, tuple[int, int]], message: str) -> bytes:
    writer = FlexibleWriter(message)
    writer.length(len(features))
    for feature, (first, second) in features.items():
        writer.string(feature, "name")
        writer.int16(first, "level")
        writer.int16(second, "level")
        writer.tags({})
    return bytes(writer.out)

"""kio, which is generated from Kafka's schemas, writes the same bytes and reads the same values."""

import base64
import dataclasses
import datetime as dt
import importlib
import io
import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from featuregate.wire.message import Message

Build = Callable[[type[Message], int], st.SearchStrategy[Message]]

NEWEST = {"ApiVersions": 4}
"""The newest version of an API in kio 0.6.5, where featuregate has a newer one."""
RENAMED = {
    "api_ranges": "api_keys",
    "supported": "supported_features",
    "finalized": "finalized_features",
    "epoch": "finalized_features_epoch",
    "updates": "feature_updates",
    "throttle_time_ms": "throttle_time",
    "timeout_ms": "timeout",
    "session_lifetime_ms": "session_lifetime",
}
"""Names of featuregate, and those of kio and Kafka, where they differ."""


STRUCTURES = {
    "ConfigEntry": "DescribeConfigsResourceResult",
    "ConfigSynonym": "DescribeConfigsSynonym",
    "AlterConfigsResult": "AlterConfigsResourceResponse",
    "ListedTransaction": "TransactionState",
    "QuorumTopic": "TopicData",
    "QuorumPartition": "PartitionData",
    "QuorumOfTopic": "TopicData",
    "QuorumOfPartition": "PartitionData",
    "ControllerNode": "Node",
    "ControllerListener": "Listener",
}
"""Structures of featuregate, and their names in kio and Kafka, where they differ."""


NESTED = {"acls", "configs", "synonyms", "partitions", "current_voters", "observers", "listeners"}
"""Fields that hold structures."""


def kio_class(message: type[Message], version: int) -> Any:
    """Find the entity that kio generated for a message."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", message.NAME).lower()
    direction = "request" if message.__name__.endswith("Request") else "response"
    return getattr(importlib.import_module(f"kio.schema.{snake}.v{version}.{direction}"), message.__name__)


def known_to_kio(message: Any) -> Any:
    """Leave out what kio cannot express: unknown tags, and error codes that it does not know."""
    known: dict[str, Any] = {}
    if hasattr(message, "unknown_tags"):
        known["unknown_tags"] = {}
    if hasattr(message, "error_code"):
        known["error_code"] = message.error_code % 100
    for name in ("results", "responses", "topics", "partitions"):
        if hasattr(message, name):
            known[name] = tuple(map(known_to_kio, getattr(message, name)))
    return dataclasses.replace(message, **known)


def to_kio(message: Message, version: int) -> Any:
    """Convert a message to kio's classes."""
    entity = kio_class(type(message), version)
    module = importlib.import_module(entity.__module__)
    mine = {RENAMED.get(f.name, f.name): getattr(message, f.name) for f in dataclasses.fields(message)}  # type: ignore[arg-type] # every message is a dataclass
    mine = {"topics": (), "allow_auto_topic_creation": False} | mine
    mine |= dict.fromkeys(("include_cluster_authorized_operations", "include_topic_authorized_operations"), False)
    convert: Mapping[str, Callable[[Any], Any]] = {
        "api_keys": lambda ranges: tuple(
            module.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()
        ),
        "supported_features": lambda features: tuple(
            module.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in features.items()
        ),
        "finalized_features": lambda features: tuple(
            module.FinalizedFeatureKey(name=name, min_version_level=low, max_version_level=high)
            for name, (low, high) in features.items()
        ),
        "brokers": lambda nodes: tuple(to_kio_node(module, message.NAME, version, node) for node in nodes),
        "feature_updates": lambda updates: tuple(to_kio_update(module, version, update) for update in updates),
        "results": lambda results: tuple(
            module.UpdatableFeatureResult(
                feature=result.feature, error_code=ErrorCode(result.error_code), error_message=result.error_message
            )
            if message.NAME == "UpdateFeatures"
            else to_kio_structure(module, result)
            for result in results
        ),
        **dict.fromkeys(
            ("resources", "responses", "topics", "nodes", "groups", "transaction_states"),
            lambda structures: tuple(to_kio_structure(module, one) for one in structures),
        ),
        "error_code": ErrorCode,
        **dict.fromkeys(
            ("throttle_time", "timeout", "session_lifetime"), lambda millis: dt.timedelta(milliseconds=millis)
        ),
    }
    names = {f.name for f in dataclasses.fields(entity)} & mine.keys()
    return entity(**{name: convert.get(name, lambda value: value)(mine[name]) for name in names})


def to_kio_node(module: Any, api: str, version: int, node: Any) -> Any:
    """Convert a broker to the class of this API and version."""
    fields = {"host": node.host, "port": node.port, "rack": node.rack}
    if api == "Metadata":
        return module.MetadataResponseBroker(node_id=node.node_id, **fields)
    fenced = {"is_fenced": node.is_fenced} if version >= 2 else {}
    return module.DescribeClusterBroker(broker_id=node.node_id, **fields, **fenced)


def to_kio_structure(module: Any, structure: Any) -> Any:
    """Convert a structure whose fields have the names that they have in kio, and those within it."""
    entity = getattr(module, STRUCTURES.get(type(structure).__name__, type(structure).__name__))
    fields = {f.name: getattr(structure, f.name) for f in dataclasses.fields(entity)}
    if "error_code" in fields:
        fields["error_code"] = ErrorCode(fields["error_code"])
    if "replica_directory_id" in fields:
        directory = UUID(bytes=base64.urlsafe_b64decode(fields["replica_directory_id"] + "=="))
        fields["replica_directory_id"] = directory if directory.int else None
    for name in fields.keys() & NESTED:
        fields[name] = tuple(to_kio_structure(module, one) for one in fields[name])
    return entity(**fields)


def to_kio_update(module: Any, version: int, update: Any) -> Any:
    """Convert an update with the fields of this version."""
    direction = {"upgrade_type": update.upgrade_type} if version >= 1 else {"allow_downgrade": update.upgrade_type != 1}
    return module.FeatureUpdateKey(feature=update.feature, max_version_level=update.max_version_level, **direction)


@settings(max_examples=20)
@given(data=st.data())
def test_kio_writes_the_same_bytes_and_reads_the_same_value(
    messages: Build, cls: type[Message], version: int, data: st.DataObject
) -> None:
    """The test encodes and decodes each message in every version that kio has."""
    if version > NEWEST.get(cls.NAME, version):
        pytest.skip("kio has no such version")
    message = known_to_kio(data.draw(messages(cls, version)))
    entity = to_kio(message, version)
    written = io.BytesIO()
    entity_writer(type(entity))(written, entity)
    assert message.encode(version) == written.getvalue()
    assert cls.decode(version, written.getvalue()) == message
    assert entity_reader(type(entity))(written.getvalue(), 0) == (entity, len(written.getvalue()))

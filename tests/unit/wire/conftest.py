"""Strategies for every message, and the golden frames."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import DescribeClusterRequest, DescribeClusterResponse, Node
from featuregate.wire.configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResult,
    ConfigEntry,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from featuregate.wire.in_use import (
    ListedGroup,
    ListedTransaction,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from featuregate.wire.message import Message
from featuregate.wire.metadata import MetadataRequest, MetadataResponse
from featuregate.wire.quorum import (
    ControllerListener,
    ControllerNode,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumOfPartition,
    QuorumOfTopic,
    QuorumPartition,
    QuorumTopic,
    ReplicaState,
)
from featuregate.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from featuregate.wire.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

Build = Callable[[type[Message], int], st.SearchStrategy[Message]]

FRAMES = Path(__file__).parents[2] / "data" / "frames"
REQUESTS = (
    ApiVersionsRequest,
    MetadataRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    SaslHandshakeRequest,
    SaslAuthenticateRequest,
)
MESSAGES: tuple[type[Message], ...] = tuple(cls for request in REQUESTS for cls in (request, request.RESPONSE))

text = st.text(st.characters(codec="utf-8"), max_size=150)
maybe_text = st.none() | text
texts = st.lists(text, max_size=3).map(tuple)
int8 = st.integers(-(2**7), 2**7 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
millis = st.integers(0, 2**31 - 1)
errors = int16
software = st.from_regex(r"\A[a-zA-Z0-9](?:[a-zA-Z0-9\-.]{0,20}[a-zA-Z0-9])?\Z")
levels = st.dictionaries(text, st.tuples(int16, int16), max_size=8)


def tags(cls: type[Message], version: int, above: int = -1) -> dict[str, Any]:
    """Generate unknown tags, if the version can carry them."""
    if version < cls.FLEXIBLE_FROM:
        return {}
    return {"unknown_tags": st.dictionaries(st.integers(above + 1, 2**20), st.binary(max_size=20), max_size=3)}


def since(first: int, version: int, **fields: Any) -> dict[str, Any]:
    """Generate a field that exists from one version on."""
    return fields if version >= first else {}


def nodes(*, fenced: bool) -> st.SearchStrategy[tuple[Node, ...]]:
    """Generate any list of nodes."""
    node = st.builds(
        Node,
        node_id=int32,
        host=text,
        port=int32,
        rack=maybe_text,
        is_fenced=st.booleans() if fenced else st.just(False),  # noqa: FBT003 - a value
    )
    return st.lists(node, max_size=5).map(tuple)


def several(cls: type[Any], **fields: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """Generate up to three structures of a message."""
    return st.lists(st.builds(cls, **fields), max_size=3).map(tuple)


def replicas(version: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Generate the voters or the observers of a quorum."""
    uuids = st.uuids().map(lambda one: base64.urlsafe_b64encode(one.bytes).decode().rstrip("="))
    return several(
        ReplicaState,
        replica_id=int32,
        log_end_offset=int64,
        **since(1, version, last_fetch_timestamp=int64, last_caught_up_timestamp=int64),
        **since(2, version, replica_directory_id=uuids),
    )


def build(cls: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Generate any message of a class that a version can carry whole."""
    return BUILDERS[cls](version)


def api_versions_request(version: int) -> st.SearchStrategy[Message]:
    """Generate both ids or neither."""
    identity = (
        st.just((None, -1)) | st.tuples(text, int32.filter(lambda node: node != -1))
        if version >= 5
        else st.just((None, -1))
    )
    fields = {
        **since(3, version, client_software_name=software, client_software_version=software),
        **tags(ApiVersionsRequest, version),
    }
    return identity.flatmap(
        lambda both: st.builds(ApiVersionsRequest, cluster_id=st.just(both[0]), node_id=st.just(both[1]), **fields)
    )


BUILDERS: dict[type[Message], Callable[[int], st.SearchStrategy[Message]]] = {
    ApiVersionsRequest: api_versions_request,
    ApiVersionsResponse: lambda version: st.builds(
        ApiVersionsResponse,
        error_code=errors,
        api_ranges=st.dictionaries(int16, st.tuples(int16, int16), max_size=90),
        **since(1, version, throttle_time_ms=millis),
        **since(3, version, supported=levels, finalized=levels, epoch=int64, zk_migration_ready=st.booleans()),
        **tags(ApiVersionsResponse, version, above=3),
    ),
    MetadataRequest: lambda version: st.builds(MetadataRequest, **tags(MetadataRequest, version)),
    MetadataResponse: lambda version: st.builds(
        MetadataResponse,
        brokers=nodes(fenced=False),
        controller_id=int32,
        **since(2, version, cluster_id=maybe_text),
        **since(3, version, throttle_time_ms=millis),
        **(since(8, version, cluster_authorized_operations=int32) if version <= 10 else {}),
        **since(13, version, error_code=errors),
        **tags(MetadataResponse, version),
    ),
    DescribeClusterRequest: lambda version: st.builds(
        DescribeClusterRequest,
        **since(1, version, endpoint_type=int8),
        **since(2, version, include_fenced_brokers=st.booleans()),
        **tags(DescribeClusterRequest, version),
    ),
    DescribeClusterResponse: lambda version: st.builds(
        DescribeClusterResponse,
        error_code=errors,
        error_message=maybe_text,
        cluster_id=text,
        controller_id=int32,
        brokers=nodes(fenced=version >= 2),
        throttle_time_ms=millis,
        cluster_authorized_operations=int32,
        **since(1, version, endpoint_type=int8),
        **tags(DescribeClusterResponse, version),
    ),
    DescribeQuorumRequest: lambda version: st.builds(
        DescribeQuorumRequest,
        topics=several(QuorumTopic, topic_name=text, partitions=several(QuorumPartition, partition_index=int32)),
        **tags(DescribeQuorumRequest, version),
    ),
    DescribeQuorumResponse: lambda version: st.builds(
        DescribeQuorumResponse,
        error_code=errors,
        topics=several(
            QuorumOfTopic,
            topic_name=text,
            partitions=several(
                QuorumOfPartition,
                partition_index=int32,
                error_code=errors,
                leader_id=int32,
                leader_epoch=int32,
                high_watermark=int64,
                current_voters=replicas(version),
                observers=replicas(version),
                **since(2, version, error_message=maybe_text),
            ),
        ),
        **since(
            2,
            version,
            error_message=maybe_text,
            nodes=several(
                ControllerNode,
                node_id=int32,
                listeners=several(ControllerListener, name=text, host=text, port=st.integers(0, 2**16 - 1)),
            ),
        ),
        **tags(DescribeQuorumResponse, version),
    ),
    UpdateFeaturesRequest: lambda version: st.builds(
        UpdateFeaturesRequest,
        timeout_ms=millis,
        updates=st.lists(
            st.builds(
                FeatureUpdate,
                feature=text,
                max_version_level=int16,
                upgrade_type=int8 if version else st.sampled_from([1, 2]),
            )
        ).map(tuple),
        **since(1, version, validate_only=st.booleans()),
        **tags(UpdateFeaturesRequest, version),
    ),
    UpdateFeaturesResponse: lambda version: st.builds(
        UpdateFeaturesResponse,
        error_code=errors,
        error_message=maybe_text,
        throttle_time_ms=millis,
        **(
            {
                "results": st.lists(
                    st.builds(FeatureResult, feature=text, error_code=errors, error_message=maybe_text)
                ).map(tuple)
            }
            if version < 2
            else {}
        ),
        **tags(UpdateFeaturesResponse, version),
    ),
    DescribeConfigsRequest: lambda version: st.builds(
        DescribeConfigsRequest,
        resources=several(
            DescribeConfigsResource,
            resource_type=int8,
            resource_name=text,
            configuration_keys=st.none() | st.lists(text, max_size=3).map(tuple),
        ),
        include_synonyms=st.booleans(),
        **since(3, version, include_documentation=st.booleans()),
        **tags(DescribeConfigsRequest, version),
    ),
    DescribeConfigsResponse: lambda version: st.builds(
        DescribeConfigsResponse,
        throttle_time_ms=millis,
        results=several(
            DescribeConfigsResult,
            error_code=errors,
            error_message=maybe_text,
            resource_type=int8,
            resource_name=text,
            configs=several(
                ConfigEntry,
                name=text,
                value=maybe_text,
                read_only=st.booleans(),
                config_source=int8,
                is_sensitive=st.booleans(),
                synonyms=several(ConfigSynonym, name=text, value=maybe_text, source=int8),
                **since(3, version, config_type=int8, documentation=maybe_text),
            ),
        ),
        **tags(DescribeConfigsResponse, version),
    ),
    IncrementalAlterConfigsRequest: lambda version: st.builds(
        IncrementalAlterConfigsRequest,
        resources=several(
            AlterConfigsResource,
            resource_type=int8,
            resource_name=text,
            configs=several(AlterableConfig, name=text, config_operation=int8, value=maybe_text),
        ),
        validate_only=st.booleans(),
        **tags(IncrementalAlterConfigsRequest, version),
    ),
    IncrementalAlterConfigsResponse: lambda version: st.builds(
        IncrementalAlterConfigsResponse,
        throttle_time_ms=millis,
        responses=several(
            AlterConfigsResult, error_code=errors, error_message=maybe_text, resource_type=int8, resource_name=text
        ),
        **tags(IncrementalAlterConfigsResponse, version),
    ),
    ListGroupsRequest: lambda version: st.builds(
        ListGroupsRequest,
        **since(4, version, states_filter=texts),
        **since(5, version, types_filter=texts),
        **tags(ListGroupsRequest, version),
    ),
    ListGroupsResponse: lambda version: st.builds(
        ListGroupsResponse,
        error_code=errors,
        groups=several(
            ListedGroup,
            group_id=text,
            protocol_type=text,
            **since(4, version, group_state=text),
            **since(5, version, group_type=text),
        ),
        **since(1, version, throttle_time_ms=millis),
        **tags(ListGroupsResponse, version),
    ),
    ListTransactionsRequest: lambda version: st.builds(
        ListTransactionsRequest,
        state_filters=texts,
        producer_id_filters=st.lists(int64, max_size=3).map(tuple),
        **since(1, version, duration_filter=int64),
        **tags(ListTransactionsRequest, version),
    ),
    ListTransactionsResponse: lambda version: st.builds(
        ListTransactionsResponse,
        throttle_time_ms=millis,
        error_code=errors,
        unknown_state_filters=texts,
        transaction_states=several(ListedTransaction, transactional_id=text, producer_id=int64, transaction_state=text),
        **tags(ListTransactionsResponse, version),
    ),
    SaslHandshakeRequest: lambda _: st.builds(SaslHandshakeRequest, mechanism=text),
    SaslHandshakeResponse: lambda _: st.builds(
        SaslHandshakeResponse, error_code=errors, mechanisms=st.lists(text).map(tuple)
    ),
    SaslAuthenticateRequest: lambda version: st.builds(
        SaslAuthenticateRequest, auth_bytes=st.binary(max_size=300), **tags(SaslAuthenticateRequest, version)
    ),
    SaslAuthenticateResponse: lambda version: st.builds(
        SaslAuthenticateResponse,
        error_code=errors,
        error_message=maybe_text,
        auth_bytes=st.binary(max_size=300),
        **since(1, version, session_lifetime_ms=millis),
        **tags(SaslAuthenticateResponse, version),
    ),
}


@dataclass(frozen=True)
class Golden:
    """One captured frame."""

    path: Path
    kafka: str
    message: type[Message]
    version: int
    frame: bytes


def golden(path: Path) -> Golden:
    """Read one file of tests/data/frames; README.md there has the format."""
    lines = path.read_text(encoding="ascii").splitlines()
    header = dict(re.findall(r"^# (\w+): *(.*?) *$", "\n".join(lines), re.MULTILINE))
    name = f"{header['api']}{header['direction'].capitalize()}"
    message = next(cls for cls in MESSAGES if cls.__name__ == name)
    data = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
    return Golden(path, header["kafka"], message, int(header["version"]), data)


GOLDEN = sorted(FRAMES.glob("*.hex"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests over each message and version, and over each golden frame."""
    if {"cls", "version"} <= set(metafunc.fixturenames):
        pairs = [(cls, version) for cls in MESSAGES for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]
        metafunc.parametrize(("cls", "version"), pairs, ids=[f"{cls.__name__}-v{version}" for cls, version in pairs])
    if "captured" in metafunc.fixturenames:
        metafunc.parametrize("captured", [golden(path) for path in GOLDEN], ids=[path.stem for path in GOLDEN])


@pytest.fixture(scope="session")
def messages() -> Build:
    """Give strategies: messages(class, version)."""
    return build


@pytest.fixture(scope="session")
def golden_count() -> int:
    """Return the number of golden frames."""
    return len(GOLDEN)

"""Every message, and the frames that real brokers sent: tests/data/frames/README.md has their format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from featuregate.wire.acls import DescribeAclsRequest
from featuregate.wire.api_versions import ApiVersionsRequest
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from featuregate.wire.in_use import ListGroupsRequest, ListTransactionsRequest
from featuregate.wire.message import Message
from featuregate.wire.metadata import MetadataRequest
from featuregate.wire.quorum import DescribeQuorumRequest
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from featuregate.wire.update_features import UpdateFeaturesRequest

REQUESTS = (
    ApiVersionsRequest,
    MetadataRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    DescribeAclsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    SaslHandshakeRequest,
    SaslAuthenticateRequest,
)
MESSAGES: dict[str, type[Message]] = {
    message.__name__: message for request in REQUESTS for message in (request, request.RESPONSE)
}


class Golden(NamedTuple):
    file: str
    message: type[Message]
    version: int
    frame: bytes


def golden(path: Path) -> Golden:
    lines = path.read_text(encoding="ascii").splitlines()
    header = dict(re.findall(r"^# (\w+): *(.*?) *$", "\n".join(lines), re.MULTILINE))
    message = MESSAGES[f"{header['api']}{header['direction'].capitalize()}"]
    frame = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
    return Golden(path.stem, message, int(header["version"]), frame)


GOLDEN = [golden(path) for path in sorted((Path(__file__).parent / "data" / "frames").glob("*.hex"))]
assert GOLDEN, "without captured frames the tests over them would pass and prove nothing"

"""A client that sends exactly the requests of a test, in the given version, and returns the answers."""

import socket
import ssl
import struct
from typing import Any, Self, TypeVar

from featuregate.testing.fakes.cluster import FakeBroker
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import DescribeClusterRequest, DescribeClusterResponse
from featuregate.wire.frames import read_correlation_id, read_response_body, write_request
from featuregate.wire.message import Request, Response

R = TypeVar("R", bound="Response")

API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class RawClient:
    """One connection to one broker. Every wait has a bound; an end of the stream is a ConnectionError."""

    def __init__(self, broker: FakeBroker, *, tls: ssl.SSLContext | None = None, timeout: float = 10.0) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), timeout=timeout)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=broker.host)
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: Request[Any], version: int) -> None:
        self._asked += 1
        self.send_bytes(write_request(request, version, self._asked, "raw"))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, response: type[R], version: int) -> R:
        payload = self.receive_frame()
        assert read_correlation_id(payload) == self._asked
        return response.decode(version, read_response_body(payload, response, version))

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def receive_rest(self) -> bytes:
        rest = b""
        while data := self._socket.recv(65536):
            rest += data
        return rest

    def ask(self, request: Request[R], version: int, answered_in: int | None = None) -> R:
        self.send(request, version)
        return self.receive(request.RESPONSE, version if answered_in is None else answered_in)

    def _exactly(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            if not (data := self._socket.recv(size - len(got))):
                raise ConnectionError(f"the broker closed the connection after {len(got)} of {size} bytes")
            got += data
        return got


def tell(broker: FakeBroker, version: int = 4) -> ApiVersionsResponse:
    with RawClient(broker) as client:
        return client.ask(API_VERSIONS, version)


def describe(broker: FakeBroker, version: int = 2, **request: Any) -> DescribeClusterResponse:
    with RawClient(broker) as client:
        return client.ask(DescribeClusterRequest(**request), version)

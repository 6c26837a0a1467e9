"""A proxy in front of a Kafka broker that answers for itself, or changes answers, as proxies of other people do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.frames import frame, read_request_header, read_response_body, write_response
from featuregate.wire.message import Response
from featuregate.wire.metadata import MetadataRequest

__all__ = ["proxying"]

HOST = "127.0.0.1"
_APIS = {request.API_KEY: request for request in (ApiVersionsRequest, DescribeClusterRequest, MetadataRequest)}
_UNSUPPORTED_VERSION = 35
Change = Callable[[Any], Response]


async def _read(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


@asynccontextmanager
async def proxying(
    port: int, *, newest: int = 99, changes: dict[int, Change] | None = None
) -> AsyncIterator[tuple[str, list[int]]]:
    """Listen on a free port, and yield its address and the versions of ApiVersions that clients asked for.

    The proxy answers error 35 to a version of ApiVersions above ``newest`` itself, and passes ``changes`` the responses
    of these APIs. It has one request under way for each client.
    """
    asked: list[int] = []

    async def serve(requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        said, broker = await asyncio.open_connection(HOST, port)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                payload = await _read(requests)
                header, _ = read_request_header(payload, _APIS)
                if header.api_key == ApiVersionsRequest.API_KEY:
                    asked.append(header.api_version)
                    if header.api_version > newest:
                        known = {ApiVersionsRequest.API_KEY: (0, newest)}
                        refusal = ApiVersionsResponse(error_code=_UNSUPPORTED_VERSION, api_ranges=known)
                        answers.write(write_response(refusal, 0, header.correlation_id))
                        continue
                broker.write(frame(payload))
                response = await _read(said)
                if (change := (changes or {}).get(header.api_key)) is not None:
                    kind = _APIS[header.api_key].RESPONSE
                    body = kind.decode(header.api_version, read_response_body(response, kind, header.api_version))
                    answers.write(write_response(change(body), header.api_version, header.correlation_id))
                else:
                    answers.write(frame(response))
        broker.close()
        answers.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()

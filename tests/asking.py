"""One request to one node, over the connection that featuregate itself makes."""

import asyncio

from featuregate.config import Settings
from featuregate.net.connection import Connection
from featuregate.wire.message import Request


def ask(address: str, request: Request, version: int | None = None, *, role: str = "broker", seconds: float = 10.0):
    """Give a node's response to a request of this version, by default the newest that both know."""
    key = "bootstrap.controllers" if role == "controller" else "bootstrap.servers"
    settings = Settings.parse({key: address, "socket.timeout.ms": int(seconds * 1000)})

    async def run():
        connection = await Connection.open(settings.bootstrap[0], settings)
        with connection:
            await connection.negotiate()
            if version is not None:
                _pin(connection, request, version)
            return await connection.request(request)

    return asyncio.run(run())


def _pin(connection: Connection, request: Request, version: int) -> None:
    session = connection._session
    session._api_ranges = {**session._api_ranges, request.API_KEY: (version, version)}

"""fast-feature with as many flags as the relay has: `python fast_feature_server.py FD KEYS`.

It listens on the socket of the descriptor. It runs in an environment of its own, with uvicorn as the relay has it.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from fast_feature.core import Flag
from fast_feature.ofrep import OfrepRouter
from fast_feature.storage.inmemory import InMemoryFlagRepository
from fastapi import FastAPI


def main() -> None:
    flags = [Flag(key=key, variants={"on": True, "off": False}, default_variant="on") for key in sys.argv[2].split(",")]
    app = FastAPI()
    app.include_router(OfrepRouter.build(InMemoryFlagRepository(flags)))
    config = uvicorn.Config(
        app, http="httptools", loop="uvloop", access_log=False, server_header=False, log_config=None
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()

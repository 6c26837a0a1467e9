"""Servers of flags, and how each is asked: the relay, the bare stack, and peers from their own registries."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import requests
from measuring import announce

from relay_load.clients import get, post
from relay_load.processes import BOUND, HERE, Server, running

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


FAST_FEATURE, UNLEASH_PROXY = "fast-feature", "@unleash/proxy"
_PYTHON = ("fast-feature[standalone]==0.0.2",)
_NPM = ("@unleash/proxy@1.4.19",)
_JSON = {"Content-Type": "application/json"}
_FLAGS = "/ofrep/v1/evaluate/flags"
_CONTEXT = b'{"context":{"targetingKey":"a"}}'


class FlagServer(NamedTuple):
    """A server, and requests for it."""

    server: Server
    all: bytes
    """All flags, for a client that has them."""
    one: bytes
    keys: list[str]


def of_ofrep(server: Server) -> FlagServer:
    """Ask by OpenFeature's protocol."""
    url = f"http://127.0.0.1:{server.port}{_FLAGS}"
    answer = requests.post(url, data=_CONTEXT, headers=_JSON, timeout=BOUND)
    keys = [flag["key"] for flag in answer.json()["flags"]] if answer.content else []
    return FlagServer(
        server,
        post(_FLAGS, _CONTEXT, If_None_Match=answer.headers["ETag"]),
        post(f"{_FLAGS}/new-groups", _CONTEXT),
        keys,
    )


def of_unleash(server: Server) -> FlagServer:
    """Ask by Unleash's protocol for browsers."""
    path, key = "/proxy?userId=a", {"Authorization": "key"}
    answer = requests.get(f"http://127.0.0.1:{server.port}{path}", headers=key, timeout=BOUND)
    one = post("/proxy", b'{"context":{"userId":"a"},"toggles":["new-groups"]}', **key)
    names = [flag["name"] for flag in answer.json()["toggles"]]
    return FlagServer(server, get(path, If_None_Match=answer.headers["ETag"], **key), one, names)


def peers(stack: ExitStack, folder: Path, keys: list[str]) -> dict[str, FlagServer]:
    """Start the peers that can be had, with these flags."""
    found = {}
    if python := _installed_python(folder / "python"):
        server = stack.enter_context(running(python, HERE / "fast_feature_server.py", words=(",".join(keys),)))
        found[FAST_FEATURE] = of_ofrep(server)
    if _installed_npm(folder / "npm"):
        words = ",".join(keys), str(folder / "npm")
        server = stack.enter_context(running("node", HERE / "unleash_proxy_server.js", words=words))
        found[UNLEASH_PROXY] = of_unleash(server)
    for missing in {FAST_FEATURE, UNLEASH_PROXY} - found.keys():
        announce(f"  {missing} cannot be had, and is left out")
    assert all(sorted(peer.keys) == sorted(keys) for peer in found.values())
    return found


def _installed_python(folder: Path) -> Path | None:
    """Make an environment, and return its interpreter; None where that cannot be done."""
    python, uv = folder / "bin" / "python", (sys.executable, "-m", "uv")
    made = _ran(*uv, "venv", "--quiet", str(folder))
    return python if made and _ran(*uv, "pip", "install", "--quiet", "--python", str(python), *_PYTHON) else None


def _installed_npm(folder: Path) -> bool:
    folder.mkdir()
    return _ran("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *_NPM)


def _ran(*command: str) -> bool:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=BOUND)
    except (OSError, subprocess.SubprocessError):
        return False
    return True

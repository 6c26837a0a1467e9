"""A relay under load, beside the bare stack that it stands on and another server of the same protocol."""

from __future__ import annotations

import asyncio
import ssl
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import requests
import trustme
import uvloop
from measuring import Row, Sample, Section, announce, as_fast_as, at_most, beside, each, take_turns
from relay_load import broker_requests
from relay_load.clients import Connections, ask, get
from relay_load.flags import FAST_FEATURE, of_ofrep, peers
from relay_load.processes import HERE, raise_file_limit, running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from relay_load.processes import Server

__all__ = ["run"]

REQUESTS = 10_000
"""Of one round."""
STREAMS, POLLS, POLLS_OVER_TLS = 5000, 10_000, 2000
"""On a busy machine 10,000 handshakes take longer than a poll waits."""
REST_SECONDS = 20.0
VIEW, EVENTS = "/v1/clusters/orders/view", "/v1/clusters/orders/events"
FEATUREGATE, BARE = "featuregate", "bare stack"


def run(rounds: int) -> Section:
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="featuregate-relay-bench-") as folder:
        rows = [*rates(Path(folder), rounds), *kept(Path(folder))]
    return Section(
        name="relay",
        title="The relay under load",
        rows=(*rows, *broker_requests.rows()),
        notes=NOTES,
    )


NOTES = (
    (
        "The bare stack is Starlette on uvicorn with uvloop and httptools, as the relay has them, with constant "
        "answers and without the relay's limits of a connection. Rates are requests by the processor time of the "
        "server, which one core has at the most in a second; clients are in another process."
    ),
    (
        "fast-feature serves OpenFeature's protocol, too, by FastAPI on the same server. @unleash/proxy evaluates the "
        "flags of Unleash for browsers, by Express on Node.js; it gets as many flags from memory, without a strategy "
        "that would look at the context. A client of all flags asks by its own protocol, and has the newest tag."
    ),
    (
        "A stream begins with one event, a long poll waits for 30 seconds. Memory is what the server has more than "
        "before, divided by the connections. The events of a change are spread over 0.2 s on purpose."
    ),
)


def rates(folder: Path, rounds: int) -> list[Row]:
    """Measure requests by the second of one core."""
    with ExitStack() as stack:
        ours = stack.enter_context(running(sys.executable, HERE / "servers.py", words=("relay",)))
        bare = stack.enter_context(running(sys.executable, HERE / "servers.py", words=("bare",)))
        view_tag = requests.get(f"http://127.0.0.1:{ours.port}{VIEW}", timeout=30).headers["ETag"]
        view = get(VIEW, If_None_Match=view_tag, Accept_Encoding="gzip")
        contestants = {FEATUREGATE: partial(rate, ours, view, 304), BARE: partial(rate, bare, view, 304)}
        what = "304 for a view"
        took = measured(what, rounds, contestants)
        rows = [as_fast_as(0.8, what, took[FEATUREGATE], took[BARE])]
        flags = {FEATUREGATE: of_ofrep(ours), BARE: of_ofrep(bare)}
        flags |= peers(stack, folder, flags[FEATUREGATE].keys)
        for what, contestants in (
            ("304 for all flags", {name: partial(rate, each.server, each.all, 304) for name, each in flags.items()}),
            (
                "evaluations of one flag",
                {name: partial(rate, each.server, each.one, 200) for name, each in flags.items()},
            ),
        ):
            took = measured(what, rounds, contestants)
            mine = took.pop(FEATUREGATE)
            rows += [
                as_fast_as(3, what, mine, other) if name == FAST_FEATURE else beside(what, mine, other)
                for name, other in took.items()
            ]
        return rows


def measured(what: str, rounds: int, contestants: Mapping[str, Callable[[], float]]) -> dict[str, Sample]:
    for warm in contestants.values():
        warm()
    return take_turns(what, rounds, contestants, "requests/s")


def rate(server: Server, request: bytes, status: int) -> float:
    before = server.processor
    uvloop.run(ask(server, request, status, REQUESTS))
    return REQUESTS / (server.processor - before)


def kept(folder: Path) -> list[Row]:
    """Measure what waits."""
    plain: dict[str, dict[str, float]] = {}
    for kind, name in (("relay", FEATUREGATE), ("bare", BARE)):
        announce(f"  {STREAMS:,} streams and {POLLS:,} long polls of {name}")
        found = plain[name] = {}
        with running(sys.executable, HERE / "servers.py", words=(kind,)) as server:
            found |= uvloop.run(streams(server))
        with running(sys.executable, HERE / "servers.py", words=(kind,)) as server:
            found |= uvloop.run(polls(server))
        for what, path, number in (("stream", EVENTS, STREAMS), ("long poll", f"{VIEW}?wait=30", POLLS_OVER_TLS)):
            with running(sys.executable, HERE / "servers.py", words=(kind,), tls=certificates(folder)) as server:
                found[f"{what} over TLS"] = uvloop.run(memory(server, path, number))
    ours, bare = plain[FEATUREGATE], plain[BARE]

    def sample(name: str, unit: str, of: dict[str, float], key: str) -> Sample:
        return Sample(name, unit, (of[key],))

    def pair(key: str, unit: str) -> tuple[Sample, Sample]:
        return sample(FEATUREGATE, unit, ours, key), sample(BARE, unit, bare, key)

    return [
        at_most(1.5, f"memory of an idle stream, of {STREAMS:,}", *pair("stream", "KiB")),
        beside(f"memory of an idle long poll, of {POLLS:,}", *pair("long poll", "KiB")),
        beside(f"memory of an idle stream over TLS, of {STREAMS:,}", *pair("stream over TLS", "KiB")),
        beside(f"memory of an idle long poll over TLS, of {POLLS_OVER_TLS:,}", *pair("long poll over TLS", "KiB")),
        each(2, f"a change reaches the last of {STREAMS:,} streams", sample(FEATUREGATE, "s", ours, "last")),
        beside("the same, half of them", *pair("half", "s")),
        beside("the same, processor time of the server", *pair("fan-out", "s")),
        each(None, f"processor at rest, {STREAMS:,} streams", sample(FEATUREGATE, "% of a core", ours, "rest")),
    ]


async def streams(server: Server) -> dict[str, float]:
    """Measure open streams: their memory, the server at rest, and a change."""
    before = server.memory
    held = Connections(server, get(EVENTS))
    await held.open(STREAMS)
    size = (server.memory - before) / STREAMS / 1024
    began, computed = time.monotonic(), server.processor
    await asyncio.sleep(REST_SECONDS)
    rest = (server.processor - computed) / (time.monotonic() - began) * 100
    computed = server.processor
    times = await held.after_change()
    spent = server.processor - computed
    held.close()
    return {"stream": size, "rest": rest, "half": statistics.median(times), "last": times[-1], "fan-out": spent}


async def polls(server: Server) -> dict[str, float]:
    return {"long poll": await memory(server, f"{VIEW}?wait=30", POLLS)}


async def memory(server: Server, path: str, number: int) -> float:
    """Return the KiB that each connection takes."""
    before = server.memory
    held = Connections(server, get(path, If_None_Match="*"))
    await held.open(number)
    size = (server.memory - before) / number / 1024
    held.close()
    return size


def certificates(folder: Path) -> tuple[ssl.SSLContext, Path, Path, Path]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    files = folder / "ca.pem", folder / "relay.pem", folder / "relay.key"
    authority.cert_pem.write_to_path(files[0])
    issued.cert_chain_pems[0].write_to_path(files[1])
    issued.private_key_pem.write_to_path(files[2])
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return (context, *files)

"""A relay under load, beside the bare stack that it stands on and another server of the same protocol."""

from __future__ import annotations

import asyncio
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import requests
import trustme
import uvloop
from measuring import Row, Sample, Section, announce, as_fast_as, at_most, beside, each, take_turns
from relay_load import broker_requests
from relay_load.clients import Connections, ask, get
from relay_load.flags import FAST_FEATURE, of_ofrep, peers
from relay_load.processes import HERE, Server, raise_file_limit, running

REQUESTS = 10_000
"""Requests of one round."""
STREAMS, POLLS = 5000, 10_000
TLS = " over TLS"
REST_SECONDS = 15.0
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
        "answers. Rates are requests by the processor time of the "
        "server, which one core has at the most in a second; clients are in another process. Meanwhile the relay polls "
        "once a second, and each poll finds another epoch: its processor time counts, and that of the fake brokers."
    ),
    (
        "fast-feature serves OpenFeature's protocol, too, by FastAPI on the same server. @unleash/proxy evaluates the "
        "flags of Unleash for browsers, by Express on Node.js; it gets as many flags from memory, without a strategy "
        "that would look at the context. A client of all flags asks by its own protocol, and has the newest tag."
    ),
    (
        "A stream begins with one event. A long poll waits for 30 seconds, and its client asks again then. Memory is "
        "what the server has more than before, divided by the connections. On purpose, the events of a change are "
        "spread over 0.2 s, and the answers to long polls over 0.1 s. All clients are one process of the same machine."
    ),
)


def rates(folder: Path, rounds: int) -> list[Row]:
    """Measure requests by the second of one core."""
    with ExitStack() as stack:
        ours = stack.enter_context(running(sys.executable, HERE / "servers.py", words=("polling",)))
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
    found: dict[str, dict[str, float]] = {}
    for kind, name in (("relay", FEATUREGATE), ("bare", BARE)):
        announce(f"  {STREAMS:,} streams and {POLLS:,} long polls of {name}, plain and over TLS")
        found[name] = {}
        for over, tls in (("", None), (TLS, certificates(folder))):
            for what, measure in (("stream", streams), ("poll", polls)):
                with running(sys.executable, HERE / "servers.py", words=(kind,), tls=tls) as server:
                    numbers = uvloop.run(measure(server))
                found[name] |= {f"{what}{over}: {key}": number for key, number in numbers.items()}

    def sample(name: str, key: str, unit: str) -> Sample:
        return Sample(name, unit, (found[name][key],))

    def pair(key: str, unit: str) -> tuple[Sample, Sample]:
        return sample(FEATUREGATE, key, unit), sample(BARE, key, unit)

    return [
        at_most(1.5, f"memory of an idle stream, of {STREAMS:,}", *pair("stream: memory", "KiB")),
        beside(f"memory of an idle long poll, of {POLLS:,}", *pair("poll: memory", "KiB")),
        beside(f"memory of an idle stream over TLS, of {STREAMS:,}", *pair(f"stream{TLS}: memory", "KiB")),
        beside(f"memory of an idle long poll over TLS, of {POLLS:,}", *pair(f"poll{TLS}: memory", "KiB")),
        each(2, f"a change reaches the last of {STREAMS:,} streams", sample(FEATUREGATE, "stream: last", "s")),
        beside("the same, half of them", *pair("stream: half", "s")),
        beside("the same, processor time of the server", *pair("stream: processor", "s")),
        beside("the same over TLS, the last of them", *pair(f"stream{TLS}: last", "s")),
        beside(f"a change answers the last of {POLLS:,} long polls", *pair("poll: last", "s")),
        beside(f"a change answers the last of {POLLS:,} long polls over TLS", *pair(f"poll{TLS}: last", "s")),
        each(None, f"processor at rest, {STREAMS:,} streams", sample(FEATUREGATE, "stream: rest", "% of a core")),
    ]


async def streams(server: Server) -> dict[str, float]:
    """Measure open streams: their memory, the server at rest, and a change."""
    held, size = await opened(server, get(EVENTS), STREAMS)
    began, computed = time.monotonic(), server.processor
    await asyncio.sleep(REST_SECONDS)
    rest = (server.processor - computed) / (time.monotonic() - began) * 100
    return {"memory": size, "rest": rest} | await changed(server, held, b"event: view")


async def polls(server: Server) -> dict[str, float]:
    """Measure long polls of clients that have the view: their memory, and a change, which answers all of them."""
    tag = (await asyncio.to_thread(server.get, VIEW)).headers["ETag"]
    held, size = await opened(server, get(f"{VIEW}?wait=30", If_None_Match=tag, Accept_Encoding="gzip"), POLLS)
    return {"memory": size} | await changed(server, held, b"HTTP/1.1 200 ")


async def opened(server: Server, request: bytes, number: int) -> tuple[Connections, float]:
    """Return connections that wait, and the KiB that each takes."""
    before = server.memory
    held = Connections(server, request)
    await held.open(number)
    return held, (server.memory - before) / number / 1024


async def changed(server: Server, held: Connections, mark: bytes) -> dict[str, float]:
    """Change the cluster, and return when the connections have the news, and what the server has computed."""
    computed = server.processor
    times = await held.after_change(mark)
    spent = server.processor - computed
    held.close()
    return {"half": statistics.median(times), "last": times[-1], "processor": spent}


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

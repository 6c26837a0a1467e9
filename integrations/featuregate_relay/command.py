"""``featuregate serve``: a relay for one cluster. Light: the server is imported when it is needed."""

from __future__ import annotations

import argparse
import ipaddress
import os
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import (
    FAILED,
    OK,
    CommandError,
    CommandHelp,
    add_cluster_options,
    add_gates,
    configuration,
    gate_requirements,
    positive_seconds,
    print_message,
)
from featuregate.polling.discoverer import Discoverer
from featuregate_relay.flags import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

__all__ = ["HELP", "add_options", "run"]

_LISTEN: Final = "127.0.0.1:8080"
_INTERVAL: Final = 60.0
_HIGHEST_PORT: Final = 65535

HELP: Final = CommandHelp(
    "serve the view of a cluster by HTTP, to processes that do not ask the brokers themselves",
    """\
Poll the brokers of a cluster and serve the merged view by HTTP: Discoverer(source=HttpSource(URL)) opens gates from it.
Other languages evaluate OpenFeature flags (OFREP): each --gate is a flag, and so is the level of each feature, as
level.FEATURE. /readyz answers 200 as soon as there is a view. Ctrl-C or SIGTERM ends it. Needs the extra 'relay'.

The relay asks nobody who they are yet, so it listens on loopback addresses only.""",
    (
        "serve --bootstrap-server localhost:9092",
        "serve --bootstrap-server localhost:9092 --name orders --listen 127.0.0.1:9080 --interval 15",
        "serve --bootstrap-server localhost:9092 --gate new-groups=kip848 --gate 'zstd=Produce>=7 & Fetch>=10'",
        "serve --command-config client.properties --latches /var/lib/featuregate",
    ),
    "0 ended by a signal, 1 the address cannot be used, 64 wrong usage",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what names the cluster, and where to listen."""
    add_cluster_options(parser, default=argparse.SUPPRESS)
    parser.add_argument("--name", default="default", metavar="NAME", help="the cluster's name in paths (default)")
    parser.add_argument(
        "--listen", type=_address, default=_LISTEN, metavar="HOST:PORT", help=f"a loopback address ({_LISTEN})"
    )
    add_gates(parser, "serve the flag NAME (bool), true once the cluster meets this requirement or preset; repeatable")
    parser.add_argument(
        "--interval", type=positive_seconds, default=_INTERVAL, metavar="SECONDS", help="between two polls (60)"
    )
    parser.add_argument("--latches", metavar="DIR", help="a folder that keeps latched levels over restarts")


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    gates = gate_requirements(args)
    if hidden := next((name for name in gates if name.startswith(LEVEL)), None):
        raise CommandError(f"argument --gate: {hidden!r} would hide the level of a feature: choose another name")
    features = Discoverer(
        configuration(args),
        interval=args.interval,
        timeout=args.timeout,
        broker_list=args.broker_list,
        latch_store=args.latches,
    )
    try:
        from featuregate_relay.server import bind, serve  # noqa: PLC0415 - uvicorn only where something is served
    except ModuleNotFoundError as error:
        raise CommandError(f"{error.name} is missing: pip install 'featuregate[relay]'", FAILED) from error
    listener = _bound(bind, *args.listen)
    host, port = listener.getsockname()[:2]
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print_message(f"serving cluster {args.name} at http://{where}/v1/clusters/{args.name}/view")
    serve(args.name, features, gates, listener)
    return OK


def _address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, of which the host is a loopback address."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    if host != "localhost" and not _is_loopback(host):
        raise argparse.ArgumentTypeError(
            f"{host!r} is not a loopback address, and the relay asks nobody who they are yet: listen on 127.0.0.1, and"
            " let a proxy on this machine authenticate clients"
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(bind: Callable[[str, int], socket], host: str, port: int) -> socket:
    try:
        return bind(host, port)
    except OSError as error:
        raise CommandError(
            f"--listen: {host}:{port} cannot be used: {os.strerror(error.errno) if error.errno else error}", FAILED
        ) from error

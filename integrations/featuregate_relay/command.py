"""``featuregate serve``: a relay for one cluster or more. Light: the server is imported when it is needed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import (
    FAILED,
    OK,
    USAGE,
    CommandError,
    CommandHelp,
    add_cluster_options,
    add_gates,
    configuration,
    gate_requirements,
    local_path_argument,
    positive_seconds,
    print_message,
)
from featuregate.flags import PREFIXES
from featuregate.requirements import Requirement, presets
from featuregate.version import how_to_install
from featuregate_relay.config.addresses import ListenAddress

if TYPE_CHECKING:
    from socket import socket

    from featuregate_relay.config.relay import RelayConfig

_OF_THE_FILE: Final = (
    "bootstrap_server",
    "bootstrap_controller",
    "command_config",
    "name",
    "gates",
    "interval",
    "timeout",
    "latches",
)
"""Options that a file has for each cluster."""

_EXPOSED: Final = (
    "{!r} is not a loopback address, and the relay does not authenticate clients: name clients in the file of --config,"
    " listen on 127.0.0.1 behind a proxy that authenticates clients, or give --allow-anonymous"
)

_UNBOUNDED: Final = (
    "{!r} is not a loopback address, and serve bounds neither slow clients nor many: listen on 127.0.0.1 behind nginx"
    " or Envoy, or give --behind-proxy where only such a proxy reaches the relay"
)

HELP: Final = CommandHelp(
    "serve the views of clusters by HTTP, to processes that do not ask the brokers themselves",
    """\
Poll the brokers of a cluster and serve the merged view by HTTP: Discoverer(source=HttpSource(URL)) opens gates from it.
Other languages evaluate OpenFeature flags (OFREP): each --gate is a flag, and so is the level of each feature, as
level.FEATURE. A browser shows at / how far a roll is, and the gates. /readyz answers 200 as soon as there is a view.
Ctrl-C or SIGTERM ends it. Needs the extra 'relay'.

A TOML file (--config) names several clusters, and clients with their API keys or certificates. serve bounds neither
slow clients nor many: it listens on loopback addresses only, unless --behind-proxy says that nginx or Envoy is before
it. A relay that does not authenticate clients also needs --allow-anonymous then.""",
    (
        "serve --bootstrap-server localhost:9092",
        "serve --bootstrap-server localhost:9092 --name orders --listen 127.0.0.1:9080 --interval 15",
        "serve --bootstrap-server localhost:9092 --gate new-groups=kip848 --gate 'zstd=Produce>=7 & Fetch>=10'",
        "serve --command-config client.properties --latches /var/lib/featuregate",
        "serve --config relay.toml --check-config",
    ),
    "0 ended by a signal, or --check-config found no mistake; 1 the address cannot be used; 64 wrong usage or "
    "configuration",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what names the clusters, and where to listen."""
    add_cluster_options(parser, default=argparse.SUPPRESS)
    parser.add_argument(
        "--config", type=local_path_argument, metavar="FILE", help="a TOML file that names the clusters"
    )
    parser.add_argument("--check-config", action="store_true", help="print each mistake of the configuration, and end")
    parser.add_argument(
        "--allow-anonymous", action="store_true", help="serve clients without credentials, on any address"
    )
    parser.add_argument(
        "--behind-proxy", action="store_true", help="listen on any address: a proxy bounds slow clients and many"
    )
    parser.add_argument("--name", metavar="NAME", help="the cluster's name in paths (default)")
    parser.add_argument("--listen", type=_address, metavar="HOST:PORT", help="an address (127.0.0.1:8080)")
    add_gates(parser, "serve the flag NAME (bool), true once the cluster meets this requirement or preset; repeatable")
    parser.add_argument("--interval", type=positive_seconds, metavar="SECONDS", help="between two polls (60)")
    parser.add_argument("--latches", metavar="DIR", help="a folder that keeps latches over restarts")


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    gates = gate_requirements(args)
    try:
        from featuregate_relay import server  # noqa: PLC0415 - uvicorn only where something is served
        from featuregate_relay.config import relay as config  # noqa: PLC0415 - pydantic, too
    except ModuleNotFoundError as error:
        raise CommandError(f"{error.name} is missing: {how_to_install('relay')}", FAILED) from error
    try:
        relay = config.read_config(_only_file(args)) if args.config else _from_options(args, gates)
        listen = args.listen or relay.listen
        if not (listen.loopback or args.behind_proxy):
            raise CommandError(_UNBOUNDED.format(listen.host))
        if not (listen.loopback or relay.authenticates or args.allow_anonymous):
            raise CommandError(_EXPOSED.format(listen.host))
        tls = relay.certificates()
        access = relay.access(anonymous=args.allow_anonymous)
        discoverers = relay.discoverers(options=args.config is None, look_only=args.check_config)
    except config.ConfigMistakes as error:
        for line in error.lines:
            print_message(f"{args.config}: {line}" if args.config else line)
        return USAGE
    if args.check_config:
        for name in relay.clusters.keys() - discoverers.keys():
            print_message(f"clusters.{name}: not judged: it needs variables or files, and --check-config reads none")
        print_message(f"{args.config or 'the options'}: no mistake, {_clusters(relay)}")
        return OK
    for features, preset in product(discoverers.values(), presets.all()):
        features.evaluate(preset)  # asks brokers for the configs that it depends on: clients have the relay's view only
    clusters = {
        name: server.PolledCluster(features, tuple(features.gate(*gate) for gate in relay.clusters[name].gates.items()))
        for name, features in discoverers.items()
    }
    if relay.authenticates and tls is None and not listen.loopback:
        print_message(f"credentials cross the network in clear text to {listen}: give [tls], or end TLS at a proxy")
    listener = _bound(server.bind, listen)
    where = ListenAddress(*listener.getsockname()[:2])
    path = f"/{next(iter(clusters))}/view" if len(clusters) == 1 else ""
    print_message(f"serving {_clusters(relay)} at {'https' if tls else 'http'}://{where}/v1/clusters{path}")
    server.serve(
        clusters,
        listener,
        access=access,
        tls=tls,
        origins=relay.allow_origins,
        local_only=not relay.authenticates and not args.allow_anonymous,
    )
    return OK


def _only_file(args: argparse.Namespace) -> Path:
    """Return the file; raises CommandError where an option says what the file says."""
    for option in _OF_THE_FILE:
        if getattr(args, option, None):
            spelled = "--gate" if option == "gates" else f"--{option.replace('_', '-')}"
            raise CommandError(f"argument {spelled}: not allowed with --config, which has it for each cluster")
    return Path(args.config)


def _from_options(args: argparse.Namespace, gates: Mapping[str, Requirement]) -> RelayConfig:
    """Return the configuration of a relay with one cluster."""
    from featuregate_relay.config.relay import checked  # noqa: PLC0415 - see run

    if hidden := next((name for name in gates if name.startswith(PREFIXES)), None):
        raise CommandError(
            f"argument --gate: {hidden!r} would hide another flag: choose a name without {', '.join(PREFIXES)}"
        )
    given = {
        "properties": configuration(args),
        "gates": gates,
        "interval": args.interval,
        "timeout": args.timeout,
        "broker-list": args.broker_list,
        "latches": args.latches,
    }
    cluster = {name: value for name, value in given.items() if value is not None}
    return checked({"clusters": {args.name or "default": cluster}}, Path())


def _clusters(relay: RelayConfig) -> str:
    names = list(relay.clusters)
    return f"cluster {names[0]}" if len(names) == 1 else f"clusters {', '.join(names)}"


def _address(text: str) -> ListenAddress:
    try:
        return ListenAddress.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _bound(bind: Callable[[str, int], socket], listen: ListenAddress) -> socket:
    try:
        return bind(*listen)
    except OSError as error:
        raise CommandError(
            f"--listen: {listen} cannot be used: {os.strerror(error.errno) if error.errno else error}", FAILED
        ) from error

"""The options that name metrics, and what is read by them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import UNKNOWN, CommandError, discover_view, local_path_argument
from featuregate.errors import ConfigError
from featuregate.files import local_path
from featuregate.jars.progress import shown_on_a_terminal
from featuregate.version import how_to_install
from featuregate_fleet.metrics.listeners import BrokerListener, configs_of, listener_argument, listeners_of

if TYPE_CHECKING:
    from featuregate_fleet.metrics.evidence import MetricsEvidence
    from featuregate_fleet.metrics.pages import Page
    from featuregate_fleet.metrics.spellings import Meaning
    from featuregate_fleet.metrics.web import Web

SINCE: Final = "7d"
_LONGEST: Final = 400 * 86_400
_SECONDS: Final = {"h": 3600, "d": 86_400}
_AT_ONCE: Final = 8
_TEXT: Final = "text/plain; version=0.0.4"
"""OpenMetrics, which exporters answer if asked, has values of counters that its own parser refuses."""
Brokers = dict[str, str] | int | None
"""The hosts of all brokers by their ids, or how many there are."""


def add_metrics_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where metrics are, how to reach them, and of which time."""
    group = parser.add_argument_group("where the metrics are")
    group.add_argument(
        "--metrics",
        metavar="[ID=]URL|FILE",
        type=_target,
        action="append",
        default=[],
        help="the page of a broker's exporter; once for each broker, with the id of the broker where it is known",
    )
    group.add_argument(
        "--prometheus",
        metavar="URL",
        help="the HTTP API of a Prometheus, or of what answers like one, that has kept the metrics of all brokers",
    )
    group.add_argument(
        "--match",
        metavar="CONDITION",
        type=_condition,
        action="append",
        default=[],
        help="with --prometheus, what chooses the metrics of the cluster: a condition on a label, such as "
        "'namespace=\"kafka\"'",
    )
    group.add_argument(
        "--since",
        metavar="TIME",
        type=_window,
        default=SINCE,
        help=f"how far back an ok must reach, such as 24h or 90d (default: {SINCE})",
    )
    group.add_argument("--token-file", metavar="FILE", type=local_path_argument, help="the bearer token that is sent")
    group.add_argument("--ca-file", metavar="FILE", type=local_path_argument, help="trusted certificates, for https")
    group.add_argument(
        "--cert-file", metavar="FILE", type=local_path_argument, help="the client's certificate with its key, for https"
    )


def add_listener_options(parser: argparse.ArgumentParser) -> None:
    """Add what the brokers say themselves with ``--bootstrap-server``."""
    parser.add_argument(
        "--listener",
        metavar="NAME=MECHANISMS",
        type=_listener,
        dest="listeners",
        action="append",
        default=[],
        help="the SASL mechanisms that a listener allows, such as CLIENT=SCRAM-SHA-256; NAME=none without SASL; "
        "NAME=brokers where brokers alone connect (default: --bootstrap-server asks the brokers)",
    )
    parser.add_argument(
        "--brokers", metavar="NUMBER", type=_count, help="how many brokers there are, without --bootstrap-server"
    )


def _target(text: str) -> tuple[str, str]:
    """Return the id of a broker, empty where it is not known, and the URL or the path of its page."""
    match = re.fullmatch(r"(?:([0-9]{1,10})=)?(.+)", text, re.DOTALL)
    broker, place = match.groups("") if match else ("", text)
    try:
        if not _is_url(place):
            local_path("", place)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None
    return broker, place


def _condition(text: str) -> str:
    if not re.fullmatch(r'[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"([^"\\\n]|\\.)*"', text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a condition on a label: write 'namespace=\"kafka\"'")
    return text


def _is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _window(text: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,5})([hd])", text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time up to 400 days: write 24h, 7d or 90d")
    return timedelta(seconds=seconds)


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers")
    return int(text)


def _listener(text: str) -> tuple[str, BrokerListener]:
    try:
        return listener_argument(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_evidence(args: argparse.Namespace, decides: Callable[[Meaning], bool]) -> MetricsEvidence:
    """Read all that the options name; of a Prometheus what may decide, and that there were others.

    Raises
    ------
    CommandError
        Nothing of it can be read.
    """
    if bool(args.metrics) is bool(args.prometheus):
        raise CommandError("name the metrics: --metrics http://broker-1:9404/metrics for each broker, or --prometheus")
    try:
        from featuregate_fleet.metrics.evidence import HOUR  # noqa: PLC0415 - --help is cheap
        from featuregate_fleet.metrics.pages import evidence_of  # noqa: PLC0415 - likewise
        from featuregate_fleet.metrics.samples import samples_of  # noqa: F401, PLC0415 - likewise
    except ModuleNotFoundError as error:
        raise CommandError(f"this needs {error.name}: {how_to_install('readiness')}") from error
    until = datetime.now(UTC)
    if args.prometheus:
        return _from_prometheus(args, until, decides)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = list(pool.map(lambda target: _page(args, target), args.metrics))
    pages, problems = [page for page, _ in read if page], [problem for _, problem in read if problem]
    if not pages:
        raise CommandError(f"{problems[0][0]}: {problems[0][1]}", UNKNOWN)
    # What came after the oldest page is on none of them, so that it is no part of the time that is judged.
    oldest = min(page.at for page in pages)
    until = oldest if until - HOUR <= oldest <= until else until
    return evidence_of(pages, until - args.since, until, problems)


def _from_prometheus(args: argparse.Namespace, until: datetime, decides: Callable[[Meaning], bool]) -> MetricsEvidence:
    from featuregate_fleet.metrics.history import History  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.prometheus import Prometheus  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.web import MetricsUnread  # noqa: PLC0415 - likewise

    try:
        with closing(web_of(args)) as web:
            server = Prometheus(web, args.prometheus)
            with shown_on_a_terminal("asking Prometheus", lambda: f"{server.asked} questions"):
                return History(server, args.match, until - args.since, until, decides).read()
    except MetricsUnread as error:
        raise CommandError(f"--prometheus: {error}", UNKNOWN) from error


def _page(args: argparse.Namespace, target: tuple[str, str]) -> tuple[Page | None, tuple[str, str] | None]:
    """Read one page, or say why it cannot be read. A file is as old as its last change says."""
    from featuregate_fleet.metrics.pages import Page  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.samples import MOST_PAGE_BYTES, samples_of  # noqa: PLC0415 - likewise

    broker, place = target
    name = broker or re.sub(r"^https?://([^/?#]*).*$", r"\1", place)
    try:
        if _is_url(place):
            with closing(web_of(args)) as web:
                body, at = web.get(place, _TEXT, MOST_PAGE_BYTES), datetime.now(UTC)
        else:
            path = local_path("", place)
            with path.open("rb") as file:
                body = file.read(MOST_PAGE_BYTES + 1)
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return Page(name, at, samples_of(body), is_named=bool(broker)), None
    except OSError as error:
        return None, (name, f"{place}: {error.strerror or error}")
    except ValueError as error:
        return None, (name, f"{place}: {error}")


def web_of(args: argparse.Namespace) -> Web:
    """Return what reads URLs with the token and the certificates of the options."""
    from featuregate.config.secrets import Secret  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.web import Web  # noqa: PLC0415 - requests

    try:
        token = Secret(args.token_file.read_text().strip()) if args.token_file else None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--token-file {args.token_file}: it cannot be read: {error}") from error
    verify = str(args.ca_file) if args.ca_file else True
    return Web(token=token, verify=verify, cert=str(args.cert_file) if args.cert_file else None)


def cluster_of(args: argparse.Namespace, names: Iterable[str]) -> tuple[Brokers, dict[str, BrokerListener]]:
    """Return which brokers there are and what their listeners allow; by the options, and by the brokers if named."""
    given = dict(args.listeners)
    if not args.bootstrap_server and not args.command_config:
        return args.brokers, given
    wanted = [name for name in names if name not in given]
    configs = configs_of(wanted)
    view = discover_view(args, configs)
    told = [
        None
        if any(one.value is None and one.exists for one in broker.configs.values()) or not broker.configs
        else {name: one.value for name, one in broker.configs.items() if one.value is not None}
        for broker in view.brokers
    ]
    ids = {str(broker.node_id): broker.host for broker in view.brokers if broker.node_id is not None}
    return args.brokers or ids, listeners_of(wanted, told) | given

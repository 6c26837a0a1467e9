"""The options that name metrics, and what is read by them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

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


class PagePlace(NamedTuple):
    """The page of one broker: its id if it is known, and a URL or the path of a file."""

    broker: str
    place: str


class Cluster(NamedTuple):
    """What is known of the cluster apart from its metrics."""

    brokers: dict[str, str] | int | None
    listeners: dict[str, BrokerListener]


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
        type=_argument(listener_argument),
        dest="listeners",
        action="append",
        default=[],
        help="the SASL mechanisms that a listener allows, such as CLIENT=SCRAM-SHA-256; NAME=none without SASL; "
        "NAME=brokers where brokers alone connect (default: --bootstrap-server asks the brokers)",
    )
    parser.add_argument(
        "--brokers", metavar="NUMBER", type=_count, help="how many brokers there are, without --bootstrap-server"
    )


def _target(text: str) -> PagePlace:
    match = re.fullmatch(r"([0-9]{1,10})=(.+)", text)
    found = PagePlace(match[1], match[2]) if match else PagePlace("", text)
    if not _is_url(found.place):
        try:
            local_path("", found.place)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(error.problem) from None
    return found


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


def _argument(read: Callable[[str], tuple[str, BrokerListener]]) -> Callable[[str], tuple[str, BrokerListener]]:
    def argument(text: str) -> tuple[str, BrokerListener]:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return argument


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
    read = _pages(args, args.metrics)
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

    web = web_of(args)
    server = Prometheus(web, args.prometheus)
    try:
        with shown_on_a_terminal("asking Prometheus", lambda: f"{server.asked} questions"):
            return History(server, args.match, until - args.since, until, decides).read()
    except MetricsUnread as error:
        raise CommandError(f"--prometheus: {error}", UNKNOWN) from error
    finally:
        web.close()


def _pages(args: argparse.Namespace, targets: Sequence[PagePlace]) -> list[tuple[Page | None, tuple[str, str] | None]]:
    """Read pages, some at a time. One that cannot be read is named with the reason."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda target: _page(args, target), targets))


def _page(args: argparse.Namespace, target: PagePlace) -> tuple[Page | None, tuple[str, str] | None]:
    from featuregate_fleet.metrics.pages import Page  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.samples import PageError, samples_of  # noqa: PLC0415 - likewise

    name = target.broker or _name_of(target.place)
    try:
        body, at = _from_url(args, target.place) if _is_url(target.place) else _from_file(target.place)
        return Page(name, at, samples_of(body), is_named=bool(target.broker)), None
    except OSError as error:
        return None, (name, f"{target.place}: {error.strerror or error}")
    except (PageError, ValueError) as error:
        return None, (name, f"{target.place}: {error}")


def _name_of(place: str) -> str:
    return re.sub(r"^https?://([^/?#]*).*$", r"\1", place)


def _from_url(args: argparse.Namespace, url: str) -> tuple[bytes, datetime]:
    from featuregate_fleet.metrics.samples import MOST_PAGE_BYTES  # noqa: PLC0415 - likewise

    web = web_of(args)
    try:
        return web.get(url, _TEXT, MOST_PAGE_BYTES), datetime.now(UTC)
    finally:
        web.close()


def _from_file(path: str) -> tuple[bytes, datetime]:
    """Read a file, which is as old as its last change says."""
    from featuregate_fleet.metrics.samples import MOST_PAGE_BYTES  # noqa: PLC0415 - likewise

    with local_path("", path).open("rb") as file:
        body = file.read(MOST_PAGE_BYTES + 1)
    return body, datetime.fromtimestamp(local_path("", path).stat().st_mtime, UTC)


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


def cluster_of(args: argparse.Namespace, names: Iterable[str]) -> Cluster:
    """Return which brokers there are and what their listeners allow; by the options, and by the brokers if named."""
    given = dict(args.listeners)
    if not args.bootstrap_server and not args.command_config:
        return Cluster(args.brokers, given)
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
    return Cluster(args.brokers or ids, listeners_of(wanted, told) | given)

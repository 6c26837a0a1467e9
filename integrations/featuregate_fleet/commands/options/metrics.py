"""The options that name metrics, and what is read by them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import UNKNOWN, CommandError, argument, discover_view, option
from featuregate.files import local_path, read_file
from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.metrics.listeners import (
    BrokerListener,
    configs_of,
    listener_argument,
    listeners_of,
    with_listener,
)
from featuregate_fleet.readiness.hours import HOUR, hour_of

if TYPE_CHECKING:
    from featuregate_fleet.metrics.evidence import MetricsEvidence
    from featuregate_fleet.metrics.prometheus import Web
    from featuregate_fleet.metrics.spellings import Meaning
    from featuregate_fleet.metrics.targets import Target

WEEK: Final = timedelta(days=7)
_LONGEST: Final = timedelta(days=400)
_UNITS: Final = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_AT_ONCE: Final = 8
_URLS: Final = ("http://", "https://")
_TEXT: Final = "text/plain; version=0.0.4"
"""OpenMetrics, which exporters answer if asked, has values of counters that its own parser refuses."""
Since = datetime | timedelta
Brokers = dict[str, str] | int | None
"""The hosts of all brokers by their ids, or how many there are."""


def add_metrics_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where metrics are, how to reach them, and of which time."""
    group = parser.add_argument_group("where the metrics are")
    page = "the page of a broker's exporter; once for each broker, with the id of the broker where it is known"
    option(group, "--metrics [ID=]URL|FILE", page, type=argument(_target), many=True)
    _add_server_options(group)


def add_prometheus_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that keeps metrics."""
    group = parser.add_argument_group("metrics that a Prometheus has kept")
    _add_server_options(group)
    reach = "how far back the first run reads metrics, such as 24h or 90d (default: 7d)"
    option(group, "--reach TIME", reach, type=argument(_window), default=WEEK)


def _add_server_options(group: argparse._ArgumentGroup) -> None:
    server = "the HTTP API of a Prometheus, or of what answers like one, that has kept the metrics of all brokers"
    option(group, "--prometheus URL", server)
    cluster = "with --prometheus, what chooses the metrics of the cluster: a condition on a label, such as "
    option(group, "--match CONDITION", f"{cluster}'namespace=\"kafka\"'", type=argument(_condition), many=True)
    option(group, "--token-file FILE", "the bearer token that is sent")
    option(group, "--ca-file FILE", "trusted certificates, for https")
    option(group, "--cert-file FILE", "the client's certificate with its key, for https")


def add_since(parser: argparse.ArgumentParser) -> None:
    """Add ``--since``."""
    since = "count what was used from this time on: 24h or 90d before now, or an hour in UTC such as 2026-11-22T14:00 "
    since += "(default: 7d for metrics, which an ok must reach back to; all that a table has)"
    option(parser, "--since TIME", since, type=argument(_since))


def add_listener_options(parser: argparse.ArgumentParser) -> None:
    """Add what the brokers say themselves with ``--bootstrap-server``."""
    allowed = "the SASL mechanisms that a listener allows, such as CLIENT=SCRAM-SHA-256; NAME=none without SASL; "
    allowed += "NAME=brokers where brokers alone connect (default: --bootstrap-server asks the brokers)"
    parse = argument(listener_argument)
    option(parser, "--listener NAME=MECHANISMS", allowed, type=parse, action=_Listeners, dest="listeners", default={})
    option(parser, "--brokers NUMBER", "how many brokers there are, without --bootstrap-server")


class _Listeners(argparse.Action):
    """Adds what an option says of a listener to what others have said."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        try:
            setattr(namespace, self.dest, with_listener(getattr(namespace, self.dest), *values))
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None


def begin(since: Since, until: datetime) -> datetime:
    """Return the time from which evidence counts that ends at ``until``."""
    return until - since if isinstance(since, timedelta) else since


def _since(text: str) -> Since:
    """Parse an hour in UTC, such as ``2026-11-22T14:00``, or a time before now, such as ``24h`` or ``90d``."""
    if re.fullmatch(r"[0-9]+[hd]", text):
        return _window(text)
    try:
        found = datetime.fromisoformat(text)
        at = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time: write 24h, 90d, or one such as 2026-11-22T14:00") from None
    if datetime.now(UTC) - at > _LONGEST:
        raise ValueError(f"{text!r} is more than 400 days ago")
    return hour_of(at)


def duration(text: str, units: str, longest: timedelta, such_as: str) -> timedelta:
    """Parse a number of some units, such as ``90s``. Raises ValueError."""
    match = re.fullmatch(rf"([0-9]{{1,7}})([{units}])", text)
    found = int(match[1]) * _UNITS[match[2]] if match else timedelta()
    if not timedelta() < found <= longest:
        raise ValueError(f"{text!r} is not a time up to {longest.days} days: write {such_as}")
    return found


_window: Final = partial(duration, units="hd", longest=_LONGEST, such_as="24h, 7d or 90d")


def _target(text: str) -> tuple[str, str]:
    """Return the id of a broker, empty where it is not known, and the URL or the path of its page."""
    match = re.fullmatch(r"(?:([0-9]{1,10})=)?(.+)", text, re.DOTALL)
    broker, place = match.groups("") if match else ("", text)
    if not place.startswith(_URLS):
        local_path("", place)
    return broker, place


def _condition(text: str) -> str:
    if not re.fullmatch(r'[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"([^"\\\n]|\\.)*"', text):
        raise ValueError(f"{text!r} is not a condition on a label: write 'namespace=\"kafka\"'")
    return text


def read_evidence(args: argparse.Namespace, decides: Callable[[Meaning], bool]) -> MetricsEvidence:
    """Read all that the options name; of a Prometheus what may decide, and that there were others.

    Raises CommandError (nothing of it can be read).
    """
    if bool(args.metrics) is bool(args.prometheus):
        raise CommandError(
            "name the evidence: --metrics http://broker-1:9404/metrics for each broker, --prometheus, or --tables"
        )
    from featuregate_fleet.metrics.pages import Page  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.targets import evidence_of  # noqa: PLC0415 - likewise

    until, since = datetime.now(UTC), args.since or WEEK
    if begin(since, until) >= until:
        raise CommandError("--since: this time is still to come")
    if args.prometheus:
        return _from_prometheus(args, begin(since, until), until, decides)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        targets = list(pool.map(lambda target: _page(args, *target), args.metrics))
    if not (read := [page.at for page in targets if isinstance(page, Page)]):
        raise CommandError(f"{targets[0].broker}: {targets[0].problem}", UNKNOWN)
    # What came after the oldest page is on none of them, so that it is no part of the time that is judged.
    until = min(read) if until - HOUR <= min(read) <= until else until
    return evidence_of(targets, begin(since, until), until)


def _from_prometheus(
    args: argparse.Namespace, since: datetime, until: datetime, decides: Callable[[Meaning], bool]
) -> MetricsEvidence:
    from featuregate_fleet.metrics.history import History  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.prometheus import MetricsUnread, Prometheus  # noqa: PLC0415 - likewise

    try:
        with closing(web_of(args)) as web:
            server = Prometheus(web, args.prometheus)
            with shown_on_a_terminal("asking Prometheus", lambda: f"{server.asked} questions"):
                return History(server, args.match, since, until, decides).read()
    except MetricsUnread as error:
        raise CommandError(f"--prometheus: {error}", UNKNOWN) from error


def _page(args: argparse.Namespace, broker: str, place: str) -> Target:
    """Read one page, or say why that of a broker cannot be read. A file is as old as its last change says."""
    from featuregate_fleet.metrics.pages import MOST_PAGE_BYTES, page_of  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.targets import Target  # noqa: PLC0415 - likewise

    said = re.sub(r"^(https?://)(?:.*@)?([^?#]*).*", r"\1\2", place, flags=re.DOTALL)  # a token may be in the query
    name = broker or re.sub(r"^https?://([^/?#]*).*$", r"\1", said)
    try:
        if place.startswith(_URLS):
            with closing(web_of(args)) as web:
                body, at = web.get(place, _TEXT, MOST_PAGE_BYTES), datetime.now(UTC)
        else:
            path = local_path("", place)
            body = read_file(path, MOST_PAGE_BYTES)
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return page_of(body, name, at, is_named=bool(broker))
    except (OSError, ValueError) as error:
        return Target(broker=name, problem=f"{said}: {getattr(error, 'strerror', None) or error}")


def web_of(args: argparse.Namespace) -> Web:
    """Return what reads URLs with the token and the certificates of the options."""
    from featuregate.config.secrets import Secret  # noqa: PLC0415 - likewise
    from featuregate_fleet.metrics.prometheus import Web  # noqa: PLC0415 - requests

    try:
        token = Secret(args.token_file.read_text().strip()) if args.token_file else None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--token-file {args.token_file}: it cannot be read: {error}") from error
    verify, cert = (str(file) if file else None for file in (args.ca_file, args.cert_file))
    return Web(token=token, verify=verify or True, cert=cert)


def cluster_of(args: argparse.Namespace, names: Iterable[str]) -> tuple[Brokers, dict[str, BrokerListener]]:
    """Return which brokers there are and what their listeners allow; by the options, and by the brokers if named."""
    given: dict[str, BrokerListener] = args.listeners
    if not args.bootstrap_server and not args.command_config:
        return args.brokers, given
    from featuregate_fleet.readiness.evidence import hosts_of  # noqa: PLC0415 - likewise

    wanted = [name for name in names if name not in given]
    configs = configs_of(wanted)
    view = discover_view(args, configs)
    told: list[dict[str, str] | None] = []
    for broker in view.brokers:
        is_hidden = not broker.configs or any(one.value is None and one.exists for one in broker.configs.values())
        values = {name: one.value for name, one in broker.configs.items() if one.value is not None}
        told.append(None if is_hidden else values)
    return args.brokers or hosts_of(view), listeners_of(wanted, told) | given

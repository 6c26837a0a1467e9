"""``watch``: print one line for each change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, assert_never

from featuregate.catalog import level_name
from featuregate.cli.arguments.options import gate_requirements
from featuregate.cli.cluster import configuration, doctor_advice, silence_log
from featuregate.cli.exit_codes import OK, UNKNOWN
from featuregate.cli.output import print_message, raise_if_unread
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.gating.gates import Gate
from featuregate.polling.discoverer import Discoverer
from featuregate.printable import printable
from featuregate.sources.brokers import BrokerSource

if TYPE_CHECKING:
    import argparse

    from featuregate.view.changes import Difference
    from featuregate.view.cluster_view import View

BATCH_SECONDS: Final = 0.2
"""The events of one poll are printed together: when the poll has ended, or after this time without an event."""
_AWAY: Final = frozenset({"ConnectFailed", "ConnectionLost", "TimedOut", "Unlisted"})
MAX_SIMILAR: Final = 3
"""More changes of one kind in one poll become one line."""
SUMMARIES: Final = {
    "api": "the common range of {0} APIs changed: {1}",
    "supported": "the common range of {0} features changed: {1}",
    "broker changed": "{0} brokers changed: {1}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output."""

    kind: str
    """``start``, ``change``, ``gate``, ``outage`` or ``recovered``."""
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    """Further keys of the JSON line."""

    def to_text(self, at: datetime) -> str:
        """Return the line with the local time."""
        return f"{at.astimezone():%H:%M:%S}  {printable(self.text)}"

    def to_json(self, at: datetime) -> str:
        """Return the JSON line, with the time in UTC."""
        line = {"at": at.isoformat(timespec="milliseconds"), "kind": self.kind, "text": self.text, **self.facts}
        return json.dumps(line)


class EventFormatter:
    """Turns events into lines, and counts polls and changes. It prints an outage once, and its end."""

    def __init__(self) -> None:
        self.polls = 0
        self.changes = 0
        self.answered = False
        """Whether a broker ever answered."""
        self._outage = False

    def lines(self, events: Iterable[Event]) -> Iterator[Line]:
        """Yield the lines of one poll: first the changes, then the gates."""
        for event in sorted(events, key=lambda event: isinstance(event, GateMoved)):
            match event:
                case Polled():
                    self.polls += 1
                    self.answered = True
                    if self._outage:
                        yield Line(kind="recovered", text=f"{event.answered} of {event.known} brokers answer again")
                    self._outage = False
                case PollFailed():
                    self.polls += 1
                    if not self._outage:
                        yield Line(kind="outage", text=event.error)
                    self._outage = True
                case Changed(before=None):
                    yield _start(event.after)
                case Changed():
                    for difference in filter(_is_news, event.differences):
                        self.changes += 1
                        facts = {"what": difference.kind, "subject": difference.subject, "epoch": event.after.epoch}
                        yield Line(kind="change", text=difference.text, facts=facts)
                case GateMoved():
                    facts = {"gate": event.gate, "open": event.open, "verdict": event.decision.verdict}
                    yield Line(kind="gate", text=f"gate {event.gate}: {event.decision.summary}", facts=facts)
                case _:
                    assert_never(event)


def _is_news(difference: Difference) -> bool:
    """Say whether it is more than another sign of a restart, which shows as refused, late and unlisted in turn."""
    failures = [getattr(each, "failure", None) for each in (difference.before, difference.after)]
    return not all(failure is not None and failure.kind in _AWAY for failure in failures)


def run(args: argparse.Namespace) -> int:
    """Watch until Ctrl-C, or until ``--for`` is over."""
    silence_log()
    requirements = gate_requirements(args)
    events: SimpleQueue[Event] = SimpleQueue()
    features = Discoverer(
        source=BrokerSource(configuration(args), timeout=args.timeout, broker_list=args.broker_list),
        interval=args.interval,
    )
    features.on_event(events.put)
    formatter, gates = EventFormatter(), list[Gate]()
    began = time.monotonic()
    with closing(features):
        with suppress(KeyboardInterrupt):
            gates += [features.gate(name, requirement, policy="live") for name, requirement in requirements.items()]
            features.start()
            until = None if args.duration is None else began + args.duration
            _consume(events, partial(_print_lines, formatter, args.output), until)
        summary = _summary(formatter, time.monotonic() - began, gates)  # live gates close with their discoverer
    if formatter.answered:
        print_message(summary)
        return OK
    print_message(f"{summary}; {doctor_advice(args)}")
    return UNKNOWN


def _consume(events: SimpleQueue[Event], handle: Callable[[list[Event]], None], until: float | None) -> None:
    """Pass the events of each poll to ``handle``, until the monotonic clock shows ``until``."""
    batch: list[Event] = []
    while until is None or time.monotonic() < until:
        raise_if_unread()
        with suppress(Empty):
            batch.append(events.get(timeout=BATCH_SECONDS))
            if not isinstance(batch[-1], Polled | PollFailed):
                continue
        handle(batch)
        batch = []
    handle(batch)


def _print_lines(formatter: EventFormatter, output: str, events: list[Event]) -> None:
    now = datetime.now(UTC)
    lines = list(formatter.lines(events))
    for line in lines if output == "json" else summarize(lines):
        print(line.to_json(now) if output == "json" else line.to_text(now), flush=True)


def summarize(lines: Sequence[Line]) -> Iterator[Line]:
    """Merge many similar changes of one poll into one line of text; the JSON output has every change."""
    for what, group in groupby(lines, lambda line: line.facts.get("what", "")):
        similar = list(group)
        if what in SUMMARIES and len(similar) > MAX_SIMILAR:
            names = ", ".join(line.facts["subject"] for line in similar[:MAX_SIMILAR])
            text = SUMMARIES[what].format(len(similar), f"{names} and {len(similar) - MAX_SIMILAR} more")
            yield Line(kind="change", text=text)
        else:
            yield from similar


def _start(view: View) -> Line:
    answered = len(view.brokers) - len(view.missing)
    epoch = f"epoch {view.epoch}" if view.epoch >= 0 else "no epoch"
    levels = {name: level_name(name, level) for name, level in sorted(view.finalized.items())}
    finalized = ", ".join(f"{name} {level}" for name, level in levels.items()) or "nothing finalized"
    text = f"cluster {view.cluster_id}: {answered} of {len(view.brokers)} {view.role}s answered, {epoch}: {finalized}"
    facts = {"cluster_id": view.cluster_id, "epoch": view.epoch, "finalized": dict(view.finalized)}
    return Line(kind="start", text=text, facts=facts)


def _summary(formatter: EventFormatter, seconds: float, gates: Iterable[Gate]) -> str:
    states = [f"gate {gate.name} {'open' if gate.open else 'not open'}" for gate in gates]
    return "; ".join([f"watched for {seconds:.0f} s: {formatter.polls} polls, {formatter.changes} changes", *states])

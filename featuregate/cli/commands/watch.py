"""``watch``: one line for each change, as it happens."""

from __future__ import annotations

import json
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import level_name
from featuregate.cli.cluster import configuration, silence_log
from featuregate.cli.exit_codes import OK, UNKNOWN, CommandError
from featuregate.cli.output import print_message, printable
from featuregate.cli.requirement_text import requirement_of
from featuregate.gating.events import Changed, GateMoved, Polled, PollFailed
from featuregate.gating.gates import Gate
from featuregate.polling.discoverer import Discoverer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from featuregate.gating.events import Event
    from featuregate.requirements import Requirement
    from featuregate.view.cluster_view import View

__all__ = ["Happening", "Teller", "brief", "run"]

ORDERLY: Final = 0.2
"""Seconds. What a poll brings is put in order once it has ended; what comes between polls, after so long a silence."""
MOST_ALIKE: Final = 3
"""Lines of one kind at one moment; more of them become one line."""
SENTENCES: Final = {
    "api": "what brokers have in common moved for {0} APIs: {1}",
    "supported": "what brokers have in common moved for {0} features: {1}",
    "broker changed": "{0} brokers say something else: {1}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line: what happened, in words and as values."""

    kind: str
    """``start``, ``change``, ``gate``, ``lost`` or ``back``."""
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    """What else the JSON line holds."""

    def to_text(self, at: datetime) -> str:
        """Return the line for people, with the time of day where they are."""
        return f"{at.astimezone():%H:%M:%S}  {printable(self.text)}"

    def to_json(self, at: datetime) -> str:
        """Return the line for programs, with the time in UTC."""
        line = {"at": at.isoformat(timespec="milliseconds"), "kind": self.kind, "text": self.text, **self.facts}
        return json.dumps(line)


class Teller:
    """Turns events into happenings, and counts them. It keeps what it needs to tell news from repetition."""

    def __init__(self) -> None:
        self.polls = 0
        self.changes = 0
        self.seen = False
        """Whether anybody has ever answered."""
        self._lost = False

    def tell(self, events: Iterable[Event]) -> Iterator[Happening]:
        """Yield what happened in one poll: first what changed, then what that did to gates."""
        for event in sorted(events, key=lambda event: isinstance(event, GateMoved)):
            match event:
                case Polled():
                    yield from self._polled(event)
                case PollFailed():
                    yield from self._failed(event)
                case Changed(before=None):
                    yield _start(event.after)
                case Changed():
                    yield from self._changed(event)
                case GateMoved():
                    yield _gate(event)

    def _polled(self, event: Polled) -> Iterator[Happening]:
        self.polls += 1
        self.seen = True
        if self._lost:
            self._lost = False
            yield Happening(kind="back", text=f"{event.answered} of {event.known} brokers answer again")

    def _failed(self, event: PollFailed) -> Iterator[Happening]:
        self.polls += 1
        if not self._lost:
            self._lost = True
            yield Happening(kind="lost", text=event.error)

    def _changed(self, event: Changed) -> Iterator[Happening]:
        for difference in event.differences:
            self.changes += 1
            facts = {"what": difference.kind, "subject": difference.subject, "epoch": event.after.epoch}
            yield Happening(kind="change", text=difference.text, facts=facts)


def run(args: argparse.Namespace) -> int:
    """Watch until ``--for`` is over or somebody presses Ctrl-C; both are how it is meant to end."""
    silence_log()
    wanted = _wanted(args.gates)
    events: SimpleQueue[Event] = SimpleQueue()
    features = Discoverer(
        configuration(args),
        interval=args.interval,
        timeout=args.timeout,
        metrics=events.put,
        broker_list=args.broker_list,
    )
    teller, gates = Teller(), list[Gate]()
    began = time.monotonic()
    # The gates are held here, because a discoverer forgets those that nobody holds.
    with closing(features):
        with suppress(KeyboardInterrupt):
            gates += [features.gate(name, requirement, policy="live") for name, requirement in wanted.items()]
            features.start()
            until = None if args.duration is None else began + args.duration
            _follow(events, partial(_say, teller, args.output), until)
        summary = _summary(teller, time.monotonic() - began, gates)  # live gates close with their discoverer
    print_message(summary)
    return OK if teller.seen else UNKNOWN


def _wanted(gates: Iterable[tuple[str, str]]) -> dict[str, Requirement]:
    wanted: dict[str, Requirement] = {}
    for name, text in gates:
        if name in wanted:
            raise CommandError(f"argument --gate: {name!r} is given twice; one name is one gate")
        wanted[name] = requirement_of(text)
    return wanted


def _follow(events: SimpleQueue[Event], say: Callable[[list[Event]], None], until: float | None) -> None:
    """Have said what happens, poll by poll, until it is time."""
    waiting: list[Event] = []
    while until is None or time.monotonic() < until:
        with suppress(Empty):
            waiting.append(events.get(timeout=ORDERLY))
            if not isinstance(waiting[-1], Polled | PollFailed):
                continue
        say(waiting)
        waiting = []
    say(waiting)


def _say(teller: Teller, output: str, events: list[Event]) -> None:
    now = datetime.now(UTC)
    told = list(teller.tell(events))
    lines = [each.to_json(now) for each in told] if output == "json" else [each.to_text(now) for each in brief(told)]
    for line in lines:
        print(line, flush=True)


def brief(told: Sequence[Happening]) -> Iterator[Happening]:
    """Say in one line for people what a roll does to dozens of API ranges or brokers at once; programs get each."""
    for what, alike in groupby(told, lambda happening: happening.facts.get("what", "")):
        happenings = list(alike)
        if what in SENTENCES and len(happenings) > MOST_ALIKE:
            named = ", ".join(each.facts["subject"] for each in happenings[:MOST_ALIKE])
            text = SENTENCES[what].format(len(happenings), f"{named} and {len(happenings) - MOST_ALIKE} more")
            yield Happening(kind="change", text=text)
        else:
            yield from happenings


def _start(view: View) -> Happening:
    answered = len(view.brokers) - len(view.missing)
    epoch = f"epoch {view.epoch}" if view.epoch >= 0 else "no epoch"
    levels = {name: level_name(name, level) for name, level in sorted(view.finalized.items())}
    said = ", ".join(f"{name} {level}" for name, level in levels.items()) or "nothing finalized"
    text = f"cluster {view.cluster_id}: {answered} of {len(view.brokers)} {view.role}s answered, {epoch}: {said}"
    facts = {"cluster_id": view.cluster_id, "epoch": view.epoch, "finalized": dict(view.finalized)}
    return Happening(kind="start", text=text, facts=facts)


def _gate(event: GateMoved) -> Happening:
    facts = {"gate": event.gate, "open": event.open, "verdict": event.decision.verdict}
    return Happening(kind="gate", text=f"gate {event.gate}: {event.decision.summary}", facts=facts)


def _summary(teller: Teller, seconds: float, gates: Iterable[Gate]) -> str:
    said = [f"gate {gate.name} {'open' if gate.open else 'not open'}" for gate in gates]
    return "; ".join([f"watched for {seconds:.0f} s: {teller.polls} polls, {teller.changes} changes", *said])

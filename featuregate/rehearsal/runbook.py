"""What a rehearsal showed: steps with their findings, a verdict, and the runbook as Markdown, JSON and HTML. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Final, Literal

from featuregate.printable import printable

Verdict = Literal["ok", "warn", "unknown", "block"]
_WORST_LAST: Final[tuple[Verdict, ...]] = ("ok", "warn", "unknown", "block")
EXIT_CODES: Final[dict[Verdict, int]] = {"ok": 0, "warn": 0, "block": 1, "unknown": 3}
"""As those of ``readiness``."""

_WIDTH: Final = 1000
_COLOURS: Final = {"ok": "#2b7a3b", "warn": "#9a6700", "unknown": "#6e7681", "block": "#c01f30"}
_STRONG: Final = re.compile(r"^## (.+)$|\*\*(.+?)\*\*", re.MULTILINE)
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }}
body {{ background: Canvas; color: CanvasText }}
pre {{ font: inherit; overflow-wrap: anywhere; white-space: pre-wrap }}
</style>
<main><h1>{title}</h1>
<p>Each step by its length, in the colour of its verdict; below, its longest pause.
<svg viewBox="0 -4 1000 60" role="img" aria-label="Each step by its length and verdict; below it the longest pause.">
{bars}
</svg><pre>{text}</pre>
"""


@dataclass(frozen=True, slots=True)
class StepFinding:
    """One thing that a step showed, and how bad it is."""

    verdict: Verdict
    text: str


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts; ``ok`` of none."""
    return max(verdicts, key=_WORST_LAST.index, default="ok")


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What became of the numbered records that were sent in one step."""

    sent: int
    out: int
    lost: int
    """Not out when the wait of the step ended."""
    doubled: int
    pause: float
    """The longest time without an output, in seconds."""

    def __str__(self) -> str:
        counts = f"{self.sent} in, {self.out} out, {self.lost} lost, {self.doubled} doubled"
        return f"{counts}; longest pause {self.pause:.1f} s"


@dataclass(slots=True, kw_only=True)
class RehearsalStep:
    """One step: what to do on the real cluster, and what the small one showed."""

    name: str
    commands: list[str]
    """For the real cluster, where ``$BOOTSTRAP`` has the addresses of brokers."""
    go_on_when: str
    """The condition, which was waited for."""
    way_back: str
    seconds: float = 0.0
    findings: list[StepFinding] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """What was seen that needs nobody's attention."""
    counts: StepCounts | None = None
    """None without an app that has topics."""
    back: StepFinding | None = None
    """What the second run showed of its way back; None without one."""

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings, that of its way back included."""
        return worst(each.verdict for each in (*self.findings, self.back) if each is not None)


@dataclass(frozen=True, slots=True)
class ReachedHop:
    """The last hop of which all steps were carried out."""

    release: str
    levels: dict[str, int]
    """Empty with ZooKeeper."""
    steps: int
    """The number of steps until then."""


@dataclass(slots=True, kw_only=True)
class Runbook:
    """The steps so far of one rehearsal."""

    releases: tuple[str, ...]
    """The first one is what the cluster runs."""
    conditions: str = ""
    """A digest of what the small cluster and the apps are."""
    not_copied: tuple[str, ...] = ()
    """What the small cluster does not have of the real one."""
    steps: list[RehearsalStep] = field(default_factory=list)
    ended: str = ""
    """Why it ended before its last step; empty where all steps were carried out."""
    reached: ReachedHop | None = None

    @property
    def whole(self) -> bool:
        """Whether all steps were carried out."""
        return self.reached is not None and self.reached.release == self.releases[-1]

    @property
    def verdict(self) -> Verdict:
        """``block`` where a step shows it, ``unknown`` where it ended early for another reason."""
        return worst([*(step.verdict for step in self.steps), "ok" if self.whole else "unknown"])

    @property
    def title(self) -> str:
        """The move, and its verdict."""
        return f"{' -> '.join(self.releases)}: {self.verdict}"

    def go_on_from(self, kept: Any) -> None:
        """Take the steps of the hops that an earlier rehearsal of the same move has reached, from its JSON.

        There are none of other apps or another cluster, and none with ZooKeeper: a new cluster does not begin where
        that one was.
        """
        reached = ReachedHop(**kept["reached"]) if kept["reached"] and not kept["whole"] else None
        same = (kept["releases"], kept.get("conditions")) == ([*self.releases], self.conditions)
        if reached is None or not same or not reached.levels:
            return
        self.reached = reached
        for step in kept["steps"][: reached.steps]:
            del step["verdict"]
            step["findings"] = [StepFinding(**each) for each in step["findings"]]
            step["counts"] = StepCounts(**step["counts"]) if step["counts"] else None
            step["back"] = StepFinding(**step["back"]) if step.get("back") else None
            self.steps.append(RehearsalStep(**step))

    def to_json(self) -> dict[str, Any]:
        """Return what ``json`` takes."""
        steps = [asdict(step) | {"verdict": step.verdict} for step in self.steps]
        return {"verdict": self.verdict, "whole": self.whole, **asdict(self), "steps": steps}

    def to_markdown(self) -> str:
        """Return the page for the person who carries out the move."""
        return "\n".join([f"# {self.title}", "", *map(printable, self._lines()), ""])

    def to_html(self) -> str:
        """Return the same as one page, below a timeline of steps and pauses."""
        text = "\n".join(escape(printable(line)) for line in self._lines() if not line.startswith("```"))
        return _PAGE.format(
            title=escape(self.title), bars="\n".join(self._bars()), text=_STRONG.sub(r"<b>\1\2</b>", text)
        )

    def _lines(self) -> Iterator[str]:
        yield "Each step was carried out on a small cluster. `$BOOTSTRAP` has addresses of your brokers."
        yield from ("", "What the small cluster does not have of yours:", "") if self.not_copied else ()
        yield from (f"- {each}" for each in self.not_copied)
        for number, step in enumerate(self.steps, start=1):
            yield from ("", f"## {number}. {step.name}: {step.verdict}", "", "```console")
            yield from (command if command[0] == "#" else f"$ {command}" for command in step.commands)
            yield from ("```", "")
            yield from (f"- **{each.verdict}**: {each.text}" for each in step.findings)
            yield from (f"- seen: {each}" for each in step.seen)
            yield from (f"- records: {each}" for each in (step.counts,) if each is not None)
            yield from (f"- took: {step.seconds:.0f} s", f"- go on when: {step.go_on_when}")
            yield f"- way back: {step.way_back}"
            yield from (f"- **{each.verdict}**: {each.text}" for each in (step.back,) if each is not None)
        if self.ended:
            yield from ("", f"**The rehearsal ended here: {self.ended}**")

    def _bars(self) -> Iterator[str]:
        """Yield a bar for each step, and one below for its pause."""
        scale, at = _WIDTH / max(sum(step.seconds for step in self.steps), 1.0), 0.0
        for step in self.steps:
            width = step.seconds * scale
            yield f'<rect x="{at:.1f}" width="{max(width - 1, 1):.1f}" height="26" fill="{_COLOURS[step.verdict]}">'
            yield f"<title>{escape(step.name)}</title></rect>"
            if step.counts is not None:
                pause = min(step.counts.pause * scale, width)
                yield f'<rect x="{at:.1f}" y="32" width="{pause:.1f}" height="10" fill="#848d97"/>'
            at += width

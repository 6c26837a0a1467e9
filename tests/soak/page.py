"""The page of a ledger: tables of what all runs have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soak.ledger import Run

INTRODUCTION = """\
# Soak

`make soak MINUTES=60` runs the fault harnesses of the producer switch and of the Spark sink in a row, each run with a
random seed of its own, on real Kafka and real Spark. App processes copy a topic under load while their members, their
brokers and their Spark are harmed, one fault after the other. At the end of a run each input message is looked for in
the output, as a `read_committed` consumer sees it: a message that is not there is lost, one that is there more often is
duplicated. A fault is counted when the app has written more messages after it. The messages of the relay are requests
of clients that come and go, and their answers; its faults are changes of a fake cluster, and connections that end.

`make soak` appends a line for each run to [soak.jsonl](soak.jsonl), with its commit, seed and versions, and writes this
page from that file. `make soak ONLY="Spark sink" SEED=42 MINUTES=0` runs one harness once, with a seed of the ledger.
The seed decides which faults are done, to which process and in which order; it does not decide how threads and
processes meet.
"""


def page(runs: Sequence[Run]) -> str:
    """Write the page in Markdown."""
    balanced = [run for run in runs if run.has_balance]
    names = list(dict.fromkeys(run.harness for run in runs))
    parts = [INTRODUCTION, "## Messages\n", _messages(runs, names)]
    if len(balanced) < len(runs):
        parts.append(
            "Runs that ended before inputs and outputs were compared count as failed, and in no other column.\n"
        )
    parts += ["## Faults\n", _faults(balanced, names), "## Failed runs\n", _failed(runs), "## Versions\n"]
    parts.append(_versions(runs))
    return "\n".join(parts)


def _messages(runs: Sequence[Run], names: Sequence[str]) -> str:
    rows = [_row(name, [run for run in runs if run.harness == name]) for name in names]
    header = ("harness", "runs", "failed", "minutes", "messages in", "messages out", "faults", "lost", "duplicated")
    return table(header, [*rows, _row("**all**", runs)])


def _row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    balanced = [run for run in runs if run.has_balance]
    counts = (
        len(runs),
        sum(run.failure is not None for run in runs),
        round(_total(runs, lambda run: run.seconds) / 60),
        _total(balanced, lambda run: run.inputs),
        _total(balanced, lambda run: run.outputs),
        _total(balanced, lambda run: sum(run.faults.values())),
        _total(balanced, lambda run: run.lost or 0),
        _total(balanced, lambda run: run.duplicated or 0),
    )
    return (name, *(f"{count:,}" for count in counts))


def _total(runs: Iterable[Run], count: Callable[[Run], int]) -> int:
    return sum(count(run) for run in runs)


def _faults(runs: Sequence[Run], names: Sequence[str]) -> str:
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for run in runs:
        counts[run.harness].update(run.faults)
    kinds = sorted({kind for counter in counts.values() for kind in counter})
    every = {name: counter for name, counter in counts.items() if counter}
    rows = [
        (kind, *(f"{counter[kind]:,}" if counter[kind] else "" for counter in every.values()), f"{total:,}")
        for kind in kinds
        if (total := sum(counter[kind] for counter in every.values()))
    ]
    return table(("fault", *every, "all"), rows)


def _failed(runs: Sequence[Run]) -> str:
    rows = [
        (run.time, run.harness, str(run.seed), _cell(run.failure), _cell(run.note))
        for run in runs
        if run.failure is not None
    ]
    return table(("time", "harness", "seed", "failure", "cause"), rows) if rows else "None.\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _versions(runs: Sequence[Run]) -> str:
    rows = [("commit", _used(run.commit for run in runs))]
    found: dict[str, list[str]] = {}
    for run in runs:
        for name, used in run.versions.items():
            found.setdefault(name, []).extend(filter(None, used.split(", ")))
    rows += [(name, _used(used)) for name, used in found.items()]
    return table(("what", "which"), rows)


def _used(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    lines.insert(1, "|---" * len(header) + "|")
    return "\n".join(lines) + "\n"

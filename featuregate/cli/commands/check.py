"""``check``: whether the cluster meets a requirement, and why."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from featuregate.cli.cluster import discover_view, doctor_advice, excluded_apis
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN
from featuregate.cli.output import print_message
from featuregate.errors import DiscoveryError
from featuregate.gating.decisions import Decision, GateVerdict, Reason, evaluate
from featuregate.printable import printable
from featuregate.requirements import Requirement, configs_in, parse
from featuregate.values import replace

if TYPE_CHECKING:
    import argparse


RETRY_SECONDS: Final = 1.0
"""Seconds between two decisions, with ``--wait``."""

_EXITS: Final[Mapping[GateVerdict, int]] = {"open": OK, "closed": FAILED, "unknown": UNKNOWN}


def run(args: argparse.Namespace) -> int:
    """Ask until the requirement is met or ``--wait`` is over, and print the last decision."""
    requirement = parse(args.requirement)
    deadline = None if args.wait is None else time.monotonic() + args.wait
    decision = decide(args, requirement)
    while not decision.open and deadline is not None and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(RETRY_SECONDS, left))
        decision = decide(args, requirement)
    print(json.dumps(decision.to_dict(), indent=2) if args.output == "json" else to_text(decision))
    return conclude(args, decision)


def decide(args: argparse.Namespace, requirement: Requirement) -> Decision:
    """Ask every broker once, and decide. If no broker answers, the decision is unknown, with the cause of each."""
    try:
        return evaluate(discover_view(args, configs_in(requirement)), requirement, exclude_apis=excluded_apis(args))
    except DiscoveryError as error:
        unknown = Decision.unseen(requirement)
        reasons = tuple(
            Reason(unknown.requirement, None, address, "unknown", f"broker {address} did not answer: {why}")
            for address, why in error.texts
        )
        if error.listed_by is not None and error.advice is not None:
            advice = f"{error.listed_by} {error.advice}"
            reasons += (Reason(unknown.requirement, None, error.listed_by, "unknown", advice),)
        return replace(unknown, reasons=reasons or unknown.reasons)


def conclude(args: argparse.Namespace, decision: Decision) -> int:
    """Return 0 for open, 1 for closed, 2 for unknown, of which the doctor tells more: a broker does not answer."""
    if decision.verdict == "unknown":
        print_message(doctor_advice(args))
    return OK if decision.open else _EXITS[decision.verdict]


def to_text(decision: Decision) -> str:
    """Return the verdict, and a line for each reason; reasons against it come first."""
    return "\n".join(map(printable, str(decision).splitlines()))

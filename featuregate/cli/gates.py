"""From the options ``--gate NAME=REQUIREMENT`` to requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.cli.exit_codes import CommandError
from featuregate.requirements import Requirement, parse

if TYPE_CHECKING:
    import argparse


def gate_requirements(args: argparse.Namespace) -> dict[str, Requirement]:
    """Return the requirements that ``--gate`` names, by the names of their gates.

    Raises `CommandError`: two gates have the same name; `RequirementError`: a text is not a preset and does not parse.
    """
    requirements: dict[str, Requirement] = {}
    for name, text in args.gates:
        if name in requirements:
            raise CommandError(f"argument --gate: {name!r} is given twice; one name is one gate")
        requirements[name] = parse(text)
    return requirements

"""``explain``: what a preset requires, its sources, and what it does not prove."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import close_to
from featuregate.cli.cluster import has_cluster
from featuregate.cli.commands import check
from featuregate.cli.exit_codes import OK, CommandError
from featuregate.cli.output import aligned
from featuregate.requirements import presets

if TYPE_CHECKING:
    import argparse

    from featuregate.gating.decisions import Decision
    from featuregate.requirements.presets import Preset

WIDTH: Final = 100


def run(args: argparse.Namespace) -> int:
    """Explain one preset, and check it where the options name a cluster; or list the presets."""
    if args.list:
        as_json = args.output == "json"
        print(json.dumps([to_json(preset) for preset in presets.all()], indent=2) if as_json else listing())
        return OK
    if args.preset is None:
        raise CommandError("give the name of a preset, or --list to list the presets")
    preset = _named(args.preset)
    decision = check.decide(args, preset) if has_cluster(args) else None
    if args.output == "json":
        decision_json = {} if decision is None else {"decision": decision.to_dict()}
        print(json.dumps(to_json(preset) | decision_json, indent=2))
    else:
        print(to_text(preset, decision))
    return OK if decision is None else check.conclude(args, decision)


def listing() -> str:
    """Return a line for each preset."""
    return "\n".join(aligned([[preset.name, preset.title] for preset in presets.all()]))


def to_text(preset: Preset, decision: Decision | None) -> str:
    """Return the explanation of a preset, and the decision if there is one."""
    parts = [
        f"{preset.name}: {preset.title}",
        f"requires\n{_indented(str(preset.requirement))}",
        f"does not prove\n{_indented(preset.note)}",
        *_clients(preset),
        "sources\n" + "\n".join(f"  {source}" for source in preset.sources),
    ]
    if decision is not None:
        parts.append(check.to_text(decision))
    return "\n\n".join(parts)


def _clients(preset: Preset) -> list[str]:
    ready = {client: f" (a preview, say its makers, before {version})" for client, version in preset.ready.items()}
    lines = [f"  {client} {version} or newer{ready.get(client, '')}" for client, version in preset.clients.items()]
    return ["clients that were seen to use it\n" + "\n".join(lines)] if lines else []


def to_json(preset: Preset) -> dict[str, Any]:
    """Return a preset as plain values."""
    return {
        "name": preset.name,
        "title": preset.title,
        "requirement": str(preset.requirement),
        "does_not_prove": preset.note,
        "clients": dict(preset.clients),
        "ready": dict(preset.ready),
        "sources": list(preset.sources),
    }


def _named(name: str) -> Preset:
    preset = presets.by_name(name)
    if preset is None:
        names = [known.name for known in presets.all()]
        close = close_to(name, names)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"
        raise CommandError(f"no preset is called {name!r}; {hint}")
    return preset


def _indented(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)

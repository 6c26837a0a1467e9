"""``hold list``: the gates that an app with this environment would hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from featuregate.cli.exit_codes import OK
from featuregate.cli.output import aligned
from featuregate.polling.hold_sources import HOLD, HOLD_FILE, HoldSources
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Print a line for each hold."""
    rows = [[hold.gate, f"held by {hold.text}"] for hold in HoldSources(os.environ, args.file).read().found]
    nothing = f"no gate is held: {HOLD} and {HOLD_FILE} name none, nor does --file"
    print("\n".join(map(printable, aligned(rows))) if rows else nothing)
    return OK

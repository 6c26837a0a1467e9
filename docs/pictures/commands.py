"""Draws what ``matrix`` and ``watch`` print, in colour: ``python docs/pictures/commands.py``.

The commands are the real ones, asked about fake brokers that run 3.9 and 4.2.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.text import Text

from featuregate.testing import FakeCluster

COLUMNS, ROWS = 88, 24
FOLDER = Path(__file__).parent
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; white-space: pre
}}
.{unique_id}-title {{ display: none }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own names a font of another server, which a page should not fetch."""


@contextmanager
def on_a_terminal(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO]]:
    """Run a command on a terminal, where it prints colours."""
    ours, its = os.openpty()
    shown = os.environ | {
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
        "TZ": "UTC",
    }
    with (
        subprocess.Popen(  # noqa: S603 - a command of this file
            [sys.executable, "-m", "featuregate", *command], stdout=its, env=shown
        ) as process,
        os.fdopen(ours, "rb", buffering=0) as output,
    ):
        os.close(its)
        yield process, output


def rest_of(output: BinaryIO) -> str:
    """Read until the command has closed its terminal."""
    chunks = []
    with suppress(OSError):  # Linux says so where others say that the file has ended
        while chunk := output.read(65536):
            chunks.append(chunk)
    return b"".join(chunks).decode().replace("\r", "")


def matrix(cluster: FakeCluster) -> str:
    """Return what ``matrix`` prints of a roll that has begun, without what all brokers do alike."""
    with on_a_terminal("matrix", "--bootstrap-server", cluster.bootstrap) as (
        _,
        output,
    ):
        lines = rest_of(output).splitlines()
    return "\n".join(lines[:ROWS]) + "\n..."


def watch(cluster: FakeCluster) -> str:
    """Return what ``watch`` prints while the brokers are upgraded."""
    options = (
        "--gate",
        "groups=kip848",
        "--interval",
        "1",
        "--bootstrap-server",
        cluster.bootstrap,
    )
    with on_a_terminal("watch", *options) as (process, output):
        said = output.read(65536)
        for broker in cluster.brokers:
            cluster.roll(broker.node_id, "4.2")
            said += output.read(65536)
        cluster.finalize({"group.version": 1, "transaction.version": 2})
        while b"gate groups: open" not in said:
            said += output.read(65536)
        process.send_signal(signal.SIGINT)
        return said.decode().replace("\r", "") + rest_of(output)


def marked(text: str) -> Text:
    """Mark the lines of gates and of levels: they are what an operator waits for."""
    lines = Text("$ featuregate watch --gate groups=kip848\n", style="dim")
    for line in text.splitlines():
        kinds = {
            "gate groups: open": "bold #7ee787",
            "gate groups": "bold #ffb454",
            "is finalized": "bold #79c0ff",
        }
        style = next((kinds[kind] for kind in kinds if kind in line), "dim")
        lines.append(f"{line}\n", style=style)
    return lines


def draw(name: str, title: str, text: Text) -> None:
    """Write a picture of a terminal."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(
            record=True,
            width=COLUMNS,
            file=nowhere,
            force_terminal=True,
            color_system="truecolor",
        )
        console.print(text, no_wrap=False)
        drawn = console.export_svg(
            title=title, code_format=FORMAT.replace("TITLE", title), unique_id=name
        )
    lines = (line.rstrip() for line in drawn.splitlines())
    (FOLDER / f"{name}.svg").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Draw each picture again."""
    with FakeCluster(brokers=3, release="4.0") as cluster:
        cluster.roll(3, "4.2")
        draw("matrix", "featuregate matrix", Text.from_ansi(matrix(cluster)))
    with FakeCluster(brokers=3, release="3.9") as cluster:
        draw("watch", "featuregate watch", marked(watch(cluster)))


if __name__ == "__main__":
    main()

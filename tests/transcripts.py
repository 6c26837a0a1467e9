"""Transcripts beside a test: what it prints, scene by scene, compared whole."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path


def sections(test: str, name: str) -> dict[str, str]:
    """Return the text below each ``== scene`` of a file beside a test."""
    text = Path(test).with_name(name).read_text().removeprefix("== ")
    return {scene: body.strip() for scene, _, body in (part.partition("\n") for part in text.split("\n== "))}


Ran = tuple[int, str, str]
"""The exit code of a command, and what it wrote to standard output and to standard error."""


def replayed(kept: str, run: Callable[..., Ran], named: Mapping[str, str], more: Callable[[], list[str]]) -> str:
    """Run the commands of a scene; return it with what they print now.

    A command follows ``$``; its standard error stands behind ``!``, an exit code other than 0 in brackets, and lines of
    ``more`` behind ``>``. Words of ``named`` stand for what differs from run to run, as does PORT.
    """
    told: list[str] = []
    for line in kept.splitlines():
        if not line.startswith("$ "):
            continue
        words = [_each(word, named) for word in shlex.split(line[2:])]
        code, out, err = run(*words)
        told += [line, *(f"> {each}" for each in more())]
        told += [*out.splitlines(), *(f"! {each}" for each in err.splitlines()), *([f"[{code}]"] if code else [])]
    text = _each("\n".join(told), {value: name for name, value in named.items()})
    return re.sub(r"(127\.0\.0\.\d):\d{4,5}", r"\1:PORT", text)


def _each(text: str, replaced: Mapping[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text

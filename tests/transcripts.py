"""Transcripts beside a test: what it prints, scene by scene, compared whole."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from featuregate.cli import main


def sections(test: str, name: str) -> dict[str, str]:
    """Return the text below each ``== scene`` of a file beside a test."""
    text = Path(test).with_name(name).read_text().removeprefix("== ")
    return {scene: body.strip() for scene, _, body in (part.partition("\n") for part in text.split("\n== "))}


def named_lines(test: str, name: str, words: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return the lines ``NAME: TEXT`` of each scene of a file beside a test, with longer texts in place of words.

    Each apostrophe behind a word is one level of JSON in which its text stands.
    """
    found = {}
    for scene, body in sections(test, name).items():
        lines = [line.partition(": ")[::2] for line in body.splitlines()]
        found[scene] = [(line_name, _spelled_out(text, words)) for line_name, text in lines]
    return found


def _spelled_out(line: str, words: Mapping[str, str]) -> str:
    def text_of(found: re.Match[str]) -> str:
        text = words[found[1]]
        for _ in found[2]:
            text = json.dumps(text)[1:-1]
        return text

    return re.sub(f"({'|'.join(words)})('*)", text_of, line)


def retold(kept: str, tell: Callable[[str], object]) -> str:
    """Return the lines ``ASKED => TOLD`` of a scene, with what is told now of what is asked; notes begin with ``#``."""
    told: list[str] = []
    for line in kept.splitlines():
        asked, arrow, _ = line.rpartition(" => ")
        told.append(line if line.startswith("#") else f"{asked}{arrow}{tell(asked)}")
    return "\n".join(told)


Ran = tuple[int, str, str]
"""The exit code of a command, and what it wrote to standard output and to standard error."""


def in_this_process(capsys: pytest.CaptureFixture[str], *before: str) -> Callable[..., Ran]:
    """Return what runs a command to its end, with some arguments before its own."""

    def run(*argv: str) -> Ran:
        return main([*before, *argv]), *capsys.readouterr()

    return run


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

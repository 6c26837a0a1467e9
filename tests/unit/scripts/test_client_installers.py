"""A client that was measured is one that is there as a whole."""

import subprocess
from pathlib import Path

import client_installers
import pytest

NPM = """#!/bin/sh
# As npm does it: package by package; the first time it is ended before the last file.
while [ "$1" != "--prefix" ]; do shift; done
mkdir -p "$2/node_modules/$3"
touch "$2/node_modules/$3/first"
if [ ! -e "$0.ran" ]; then touch "$0.ran"; exit 137; fi
test ! -e "$2/node_modules/left-over" && touch "$2/node_modules/$3/last"
"""


def test_an_installation_that_was_ended_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    folder = tmp_path / "kafkajs-1.15.0"
    with pytest.raises(subprocess.CalledProcessError):
        client_installers.npm_environment(folder, "kafkajs@1.15.0")
    (folder / "node_modules" / "left-over").touch()
    for _ in range(2):
        found = client_installers.npm_environment(folder, "kafkajs@1.15.0")
    assert {each.name for each in Path(found["NODE_PATH"], "kafkajs@1.15.0").iterdir()} == {"first", "last"}

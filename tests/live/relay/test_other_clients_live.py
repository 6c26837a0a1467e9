"""Clients that others wrote, each installed by its own package manager, evaluate the flags of a relay."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from balancing import Port, balancing
from chromium import chromium
from http_serving import serving_http
from relay_on_socket import serving
from waiting import BOUND, eventually

from featuregate.jars.maven import cache_folder
from featuregate.testing import StaticFeatures, release_view
from featuregate.testing.local_kafka.java import find_java

pytestmark = [pytest.mark.proof("relay"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(600)]

PEERS = Path(__file__).parents[1] / "peers"
LEVELS = {"metadata.version": 25}
CLOSED = release_view("4.2", finalized={**LEVELS, "group.version": 0}, epoch=5)
OPEN = release_view("4.2", finalized={**LEVELS, "group.version": 1}, epoch=6)
DOWNGRADED = release_view("4.2", finalized={**LEVELS, "group.version": 0}, epoch=7)
POLLS = 4
FETCH_SECONDS = 300


@contextmanager
def replica(view, *origins: str) -> Iterator[tuple[StaticFeatures, str]]:
    """Serve the flag ``groups`` from a relay of its own, to pages of these origins."""
    features = StaticFeatures(view)
    gate = features.gate("groups", "group.version>=1")
    with serving({"default": features}, gate, origins=origins) as url:
        yield features, url


@pytest.fixture(scope="session")
def web_provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install OpenFeature's web provider beside programs that use it, and return the folder."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs node and npm, and they are not on the path")
    folder = tmp_path_factory.mktemp("ofrep_web")
    shutil.copytree(PEERS / "ofrep_web", folder, dirs_exist_ok=True)
    install = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    fetch("npm", install, folder)
    return folder


def fetch(manager: str, command: list[str], folder: Path) -> None:
    """Run a package manager, and skip where it cannot get the provider."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{manager} has not got the provider within {FETCH_SECONDS} s")
    if done.returncode:
        pytest.skip(f"the provider cannot be had from {manager}: {(done.stderr or done.stdout).strip()}")


@pytest.fixture
def web_client(web_provider: Path) -> list[str]:
    """Return the command of a program that evaluates flags, given the URL of a relay."""
    return ["node", str(web_provider / "main.mjs")]


@contextmanager
def serving_files(folder: Path) -> Iterator[str]:
    """Serve a folder to browsers, and give its URL."""

    class Files(SimpleHTTPRequestHandler):
        extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    with serving_http(Files, directory=folder) as url:
        yield url


@contextmanager
def running(command: list[str]) -> Iterator[Seen]:
    """Run a program that prints a line of JSON for each event; it ends with its standard input."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield Seen(process)
        finally:
            process.kill()


class Seen:
    """What a program has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout

    def next(self) -> dict[str, Any]:
        line = self._lines.readline()
        assert line, "the program has ended"
        return json.loads(line)


def test_the_web_provider_follows_a_gate(web_client: list[str]) -> None:
    """With types and variants, and an event that names what has changed; unchanged flags are not sent again."""
    with (
        replica(CLOSED) as (features, url),
        balancing(Port.of(url)) as balancer,
        running([*web_client, balancer.url]) as web,
    ):
        assert web.next() == {
            "event": "ready",
            "changed": [],
            "gate": False,
            "variant": "closed",
            "level": 0,
            "mismatch": "TYPE_MISMATCH",
        }
        eventually(lambda: balancer.statuses.count(304) >= 2)
        features.show(OPEN)
        changed = web.next()
        assert (changed["event"], changed["gate"], changed["variant"], changed["level"]) == ("changed", True, "open", 1)
        assert set(changed["changed"]) == {"groups", "level.group.version"}


def test_invariant_10_the_web_provider_meets_another_replica(web_client: list[str]) -> None:
    """Which has not latched the gate, and holds it open for this client; to others it is closed."""
    with replica(OPEN) as (_, first), replica(DOWNGRADED) as (_, second):
        with balancing(Port.of(first)) as balancer, running([*web_client, balancer.url]) as web:
            assert web.next()["gate"] is True
        with balancing(Port.of(second)) as balancer, running([*web_client, balancer.url]) as web:
            assert web.next()["gate"] is False
        with balancing(Port.of(first), Port.of(second)) as balancer, running([*web_client, balancer.url]) as web:
            assert web.next()["gate"] is True
            eventually(lambda: len(balancer.statuses) >= POLLS)
            moved = web.next()
            assert (moved["event"], moved["gate"], moved["level"]) == ("changed", True, 0)
            assert set(balancer.statuses) <= {200, 304, 503}


def test_a_browser_follows_a_gate(web_provider: Path) -> None:
    """It asks again by itself, and gets 304 while the flags are the same."""
    with chromium() as browser, serving_files(web_provider) as origin, replica(CLOSED, origin) as (features, url):
        page = browser.new_page()
        page.set_default_timeout(BOUND * 1000)
        statuses: list[int] = []
        page.on("response", lambda response: statuses.append(response.status) if url in response.url else None)
        page.goto(f"{origin}/index.html?relay={url}")
        page.wait_for_function("globalThis.seen.some((one) => one.event === 'ready' && !one.gate)")
        while 304 not in statuses:
            page.wait_for_event("response")
        features.show(OPEN)
        page.wait_for_function("globalThis.seen.some((one) => one.event === 'changed' && one.gate)")
        assert not page.evaluate("globalThis.seen.some((one) => one.event === 'error')")


@pytest.fixture(scope="session")
def java_client(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Install OpenFeature's provider for Java, and return the command of a program that uses it."""
    mvn = shutil.which("mvn")
    if mvn is None:
        pytest.skip("needs Maven, and there is no `mvn` on the path")
    jars = tmp_path_factory.mktemp("ofrep_java")
    copy = [
        mvn,
        "-q",
        "-B",
        "-f",
        str(PEERS / "ofrep_java"),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={jars}",
    ]
    fetch("Maven", copy, jars)
    return [str(find_java()), "-cp", f"{jars}/*", str(PEERS / "ofrep_java" / "OfrepClient.java")]


def test_the_java_provider_evaluates_a_gate_and_a_level(java_client: list[str]) -> None:
    """Types are kept, and what is not there is the default of the code."""
    with replica(OPEN) as (_, url):
        done = subprocess.run([*java_client, url], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.stdout.splitlines() == [
        "groups true open null",
        "level.group.version 1 1 null",
        "groups fallback null TYPE_MISMATCH",
        "missing false null FLAG_NOT_FOUND",
    ], done.stderr


@pytest.fixture(scope="session")
def rust_client() -> list[str]:
    """Compile OpenFeature's provider for Rust with a program that uses it, and return the command.

    What is compiled stays in the cache beside Kafka: compiling takes minutes, and finding it compiled a second.
    """
    cargo, folder = shutil.which("cargo"), cache_folder() / "ofrep_rust"
    program = folder / "target" / "debug" / "ofrep-client"
    if cargo is None:
        pytest.skip("needs cargo, and it is not on the path")
    if not program.exists() and not os.environ.get("FEATUREGATE_RUST"):
        pytest.skip("compiles for minutes the first time: set FEATUREGATE_RUST=1")
    shutil.copytree(PEERS / "ofrep_rust", folder, dirs_exist_ok=True)
    fetch("cargo", [cargo, "build", "--quiet"], folder)
    return [str(program)]


def test_the_rust_provider_evaluates_a_gate_and_a_level(rust_client: list[str]) -> None:
    """The provider returns types and variants, too."""
    with replica(OPEN) as (_, url):
        done = subprocess.run([*rust_client, url], capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.stdout.splitlines() == ["groups true open", "level.group.version 1 1", "missing FlagNotFound"], (
        done.stderr
    )

"""Every argument list to the real kafka-features and to ours, on the same real clusters: what is printed, and where.

The tool of 4.3.1 runs all lists in one JVM, through the one method behind the script, in order; then ours runs them, in
the same order and from the same finalized levels, to which each sequence comes back by itself. Compared are standard
output, the exit code and standard error; of the last, two quirks of upstream are taken out: what is wrong with an
argument list is printed there without a newline, and through a format.
"""

import io
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
from real_tool import Printed, run_many

import featuregate
from featuregate.catalog import features
from featuregate.cli import main
from featuregate.testing import LocalKafka

# Where Java cannot compile, the real tool needs a process for each line: minutes, rather than seconds.
pytestmark = [pytest.mark.proof("admin"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1200)]

TOOL = "4.3.1"
CLUSTERS = ("4.2.0", "3.9.2")

ONLINE = """
{where} describe
{quorum} describe
{where} upgrade
{where} downgrade
{where} disable
{where} upgrade --dry-run
{where} upgrade --feature group.version
{where} upgrade --feature group.version=x
{where} upgrade --feature group.version=
{where} upgrade --feature =1
{where} upgrade --feature ' =1'
{where} upgrade --feature group.version=0
{where} upgrade --feature group.version=-1
{where} downgrade --feature group.version=-1
{where} upgrade --feature group.version=99999
{where} upgrade --feature a=1 --feature a=2
{where} disable --feature a --feature a
{where} upgrade --release-version 4.0 --feature group.version=1
{where} upgrade --release-version 9.9
{where} downgrade --release-version 4.4
{where} upgrade --feature metadata.version={level} --dry-run
{where} upgrade --feature metadata.version={level}
{where} upgrade --feature metadata.version=20
{where} upgrade --feature metadata.version=20 --dry-run
{where} upgrade --release-version {release} --dry-run
{where} upgrade --release-version 4.3 --dry-run
{where} upgrade --release-version 3.8 --dry-run
{where} downgrade --release-version 3.7 --dry-run
{where} downgrade --release-version {release} --dry-run
{where} downgrade --release-version 4.3
{where} upgrade --feature metadata.version=99
{where} upgrade --feature metadata.version=99 --dry-run
{where} upgrade --feature metadata.version={level}
{where} upgrade --feature metadata.version=8
{where} downgrade --feature metadata.version=8
{where} downgrade --feature metadata.version=8 --dry-run
{where} downgrade --feature metadata.version=8 --unsafe
{where} downgrade --feature metadata.version=8 --unsafe --dry-run
{where} downgrade --feature metadata.version=3
{where} downgrade --feature metadata.version=99
{where} disable --feature metadata.version
{where} disable --feature metadata.version --unsafe
{where} upgrade --feature bogus=1
{where} upgrade --feature bogus=1 --dry-run
{where} downgrade --feature bogus=1
{where} disable --feature bogus --dry-run
{where} upgrade --feature 'with space=1'
{where} upgrade --feature 'per%cent=1'
{where} downgrade --feature metadata.version={lower} --dry-run
{where} downgrade --feature metadata.version={lower}
{where} downgrade --feature metadata.version={level}
{where} upgrade --feature bogus=2
{where} describe
{where} upgrade --feature metadata.version={level}
{where} upgrade --feature metadata.version={level} --feature bogus=1
{where} upgrade --feature metadata.version={level} --feature bogus=1 --dry-run
{where} disable --feature bogus --feature another.bogus
{quorum} upgrade --feature metadata.version={level}
{quorum} upgrade --feature bogus=1
{quorum} upgrade
--bootstrap-server {controllers} describe
--bootstrap-server {controllers} upgrade --feature bogus=1
--bootstrap-controller {brokers} describe
--bootstrap-controller {brokers} upgrade --feature bogus=1
--bootstrap-server 127.0.0.1:1 --command-config {hasty} describe
--bootstrap-server 127.0.0.1:1 --command-config {hasty} upgrade --feature b=1 --feature a=2
--bootstrap-server 127.0.0.1:1 --command-config {hasty} disable --feature a --dry-run
--bootstrap-controller 127.0.0.1:1 --command-config {hasty} describe
"""

LEVELS = """
{where} upgrade --feature group.version=1
{where} upgrade --feature group.version=2
{where} upgrade --feature transaction.version=1
{where} downgrade --feature transaction.version=1
{where} downgrade --feature transaction.version=1 --unsafe
{where} downgrade --feature transaction.version=2
{where} upgrade --feature transaction.version=2
{where} disable --feature group.version --dry-run
{where} disable --feature group.version
{where} upgrade --feature group.version=1 --dry-run
{where} upgrade --feature group.version=3
{where} describe
{where} upgrade --feature group.version=1
{where} disable --feature share.version --feature streams.version
{where} upgrade --feature share.version=1 --feature streams.version=1
{where} upgrade --feature share.version=2
{where} downgrade --feature kraft.version=0
{where} disable --feature kraft.version --dry-run
{where} upgrade --feature group.version=1 --feature transaction.version=9
"""


NEWER = ("{where} downgrade --release-version 4.4",)
"""What `featuregate` knows and kafka-features 4.3 does not."""

NOT_SENT = ("{where} upgrade --feature metadata.version=99",)
"""A level that no node supports, and that could not be undone: `featuregate` keeps it."""

UNKNOWN = ("{where} upgrade --release-version 9.9",)
"""A release that neither knows: `featuregate` names the oldest and the newest, and not each level in between."""

RELEASES = (
    "{where} upgrade --release-version {release} --dry-run",
    "{where} upgrade --release-version 4.3 --dry-run",
    "{where} upgrade --release-version 3.8 --dry-run",
    "{where} downgrade --release-version 3.7 --dry-run",
    "{where} downgrade --release-version {release} --dry-run",
    "{where} downgrade --release-version 4.3",
)
"""`featuregate` sends those that move, and can: see test_move_to_release_live.py."""

LINES = [
    line
    for line in f"{ONLINE}{LEVELS}".strip().splitlines()
    if line.startswith(("{where}", "{quorum}")) and line not in (*NEWER, *UNKNOWN, *NOT_SENT, *RELEASES)
]
"""Lines that `featuregate` takes, too: of what is wrong with the way to a cluster it says more than upstream."""


class Beside(NamedTuple):
    """What each program made of each line."""

    theirs: list[Printed]
    ours: list[Printed]


@pytest.fixture(scope="module", params=CLUSTERS)
def beside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """Run all lines on one cluster, once; one cluster at a time is up."""
    with LocalKafka(request.param) as kafka:
        yield run_all(kafka, request.param, tmp_path_factory.mktemp("lists"))


def run_all(kafka: LocalKafka, version: str, folder: Path) -> Beside:
    """Let the real tool go first, and then ours, from the same finalized levels."""
    hasty = folder / "hasty.properties"
    hasty.write_text("default.api.timeout.ms=600\nrequest.timeout.ms=500\n")
    level = {"4.2.0": ("29", "4.2", "27"), "3.9.2": ("21", "3.9", "20")}[version]
    words = {
        "where": f"--bootstrap-server {kafka.bootstrap}",
        "quorum": f"--bootstrap-controller {kafka.controller_bootstrap}",
        "brokers": kafka.bootstrap,
        "controllers": kafka.controller_bootstrap,
        "hasty": str(hasty),
        **dict(zip(("level", "release", "lower"), level, strict=True)),
    }
    argument_lists = [in_words(line, words) for line in LINES]
    before = featuregate.discover(kafka.bootstrap).finalized
    theirs = run_many(TOOL, argument_lists, folder)
    assert featuregate.discover(kafka.bootstrap).finalized == before
    ours = [printed_by(main, argv, kafka) for argv in argument_lists]
    assert featuregate.discover(kafka.bootstrap).finalized == before
    return Beside(theirs, ours)


def in_words(line: str, words: Mapping[str, str]) -> tuple[str, ...]:
    """Read the argument list of a line."""
    return () if line == "''" else tuple(shlex.split(line.format(**words)))


def printed_by(
    program: Callable[[Sequence[str]], int], argv: Sequence[str], kafka: LocalKafka | None = None
) -> Printed:
    """Run a program of ours in this process; it is soon there, so the broker may have to hear of the last change."""
    if kafka is not None and "describe" in argv:
        levels = featuregate.discover({"bootstrap.controllers": kafka.controller_bootstrap}).finalized
        known = dict.fromkeys(features()[1:], 0)
        featuregate.Admin(kafka.bootstrap).wait_for_levels({**known, **levels}, 30)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = program(argv)
    return Printed(code, out.getvalue(), err.getvalue())


def still(text: str) -> str:
    """Take out the epoch, which runs."""
    return re.sub(r"Epoch: \d+", "Epoch: N", text)


@pytest.mark.parametrize("at", range(len(LINES)), ids=LINES)
def test_featuregate_prints_what_kafka_features_prints(beside: Beside, at: int) -> None:
    """Its errors have its name in front, and no space twice; what a level does is said before them."""
    theirs, ours = beside.theirs[at], beside.ours[at]
    assert ours.code == theirs.code
    assert still(ours.out) == still(theirs.out)
    assert " ".join(ours.err.split()).endswith(" ".join(theirs.err.split()))


def test_enough_was_compared() -> None:
    """And not by accident the same line again and again."""
    assert len(set(LINES)) > 60

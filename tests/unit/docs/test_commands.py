"""The commands of the pages: each one parses, and those that a newcomer types run and print what the page shows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import EVERY, ROOT, name, parsed

from featuregate.cli import main
from featuregate.cli.arguments.parser import parse_arguments
from featuregate.testing import FakeCluster

DOCS = ROOT / "docs"
FIRST = [ROOT / "README.md", DOCS / "index.md"]
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
IN_A_SENTENCE = re.compile(r"`(featuregate \w[^`]*)`")
LASTS = {"sandbox", "serve", "watch", "completion"}
"""Commands that run until they are told to end, or whose output is for a shell. Their own tests run them."""


def words_of(line: str) -> list[str]:
    lexer = shlex.shlex(line.replace("\\\n", ""), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    end = min((words.index(mark) for mark in ("&&", "|", ">", "<") if mark in words), default=len(words))
    return words[:end]


def typed(page: Path) -> list[list[str]]:
    lines = [line for block in SESSION.findall(page.read_text()) for line in TYPED.findall(block)]
    return [words[1:] for line in lines if (words := words_of(line))[:1] == ["featuregate"]]


@pytest.mark.parametrize("page", [page for page in EVERY if typed(page)], ids=name)
def test_each_command_of_a_page_parses(page: Path) -> None:
    """An option that was renamed would be wrong usage for a reader who copies the line."""
    for arguments in typed(page):
        parse_arguments(arguments)


def test_each_command_of_the_cheat_sheet_is_one() -> None:
    """It leaves out where the cluster is."""
    shown = [words_of(command)[1:] for command in IN_A_SENTENCE.findall((DOCS / "reference/front-door.md").read_text())]
    needed = {"fleet": ["--tables", "tables", "--cluster", "orders"], "sandbox": []}
    for arguments in shown:
        parse_arguments([*arguments, *needed.get(arguments[0], ["--bootstrap-server", "localhost:9092"])])
    assert len(shown) > 5


@pytest.fixture(scope="module")
def sandbox() -> Iterator[FakeCluster]:
    """What ``featuregate sandbox --fake --nodes 3`` runs."""
    with FakeCluster(3) as brokers:
        yield brokers


@pytest.mark.parametrize(
    "arguments",
    [
        arguments
        for page in (*FIRST, DOCS / "how-to/troubleshoot.md", DOCS / "reference/command-line.md")
        for arguments in typed(page)
        if arguments[0] not in LASTS and not {"--spark", "--command-config"} & {*arguments}  # live tests ask these
    ],
    ids=" ".join,
)
def test_commands_of_a_newcomer_find_the_sandbox_well(sandbox: FakeCluster, arguments: list[str]) -> None:
    """With the address of the page, or another one, in place of the sandbox's."""
    addresses = {"localhost:9092", "kafka:9092"}
    warned = 2 if arguments[0] == "doctor" else 0  # fake brokers have no controllers that raise the epoch
    assert main([sandbox.bootstrap if word in addresses else word for word in arguments]) == warned


@pytest.mark.parametrize("page", FIRST, ids=name)
def test_the_first_decision_is_printed_as_the_page_shows_it(
    page: Path, sandbox: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the id of the cluster differs."""
    text = page.read_text()
    shown = re.search(r"^```text\n(open: .*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown is not None
    next(iter(parsed(page, sandbox.bootstrap).examples())).evaluate()
    assert without_id(capsys.readouterr().out) == without_id(shown[1])


def without_id(decision: str) -> str:
    return re.sub(r"cluster [\w-]{22}", "cluster ID", decision)


@pytest.mark.parametrize("part", ["TLS", "SASL"])
def test_doctor_says_what_the_page_for_troubles_quotes(part: str) -> None:
    """A reader who searches for the sentence finds it."""
    page = (DOCS / "how-to/troubleshoot.md").read_text()
    table = page.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    quoted = [row.strip("| ").split(" | ")[0].rstrip(".") for row in table.splitlines() if row.startswith("| ")][1:]
    files = [*(ROOT / "featuregate/cli/diagnosis").glob("*.py"), ROOT / "featuregate/credentials/kerberos.py"]
    source = "\n".join(path.read_text() for path in files)
    assert len(quoted) > 2
    for sentence in quoted:
        ours = re.sub("(?<=^Kerberos failed: ).*", "{", sentence)  # and then the words of its library
        assert re.sub("(?<=security.protocol is ).*", "{protocol}", ours) in source, sentence

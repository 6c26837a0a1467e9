"""The words of public names: each is on the page of words, and none of those that were replaced comes back."""

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from featuregate.cli.arguments.parser import all_plugins, build_parser

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/words.md"
PACKAGES = {
    "featuregate": ROOT / "featuregate",
    "featuregate_confluent": ROOT / "integrations/featuregate_confluent",
    "featuregate_fleet": ROOT / "integrations/featuregate_fleet",
    "featuregate_librdkafka": ROOT / "integrations/featuregate_librdkafka",
    "featuregate_metrics": ROOT / "integrations/featuregate_metrics",
    "featuregate_openfeature": ROOT / "integrations/featuregate_openfeature",
    "featuregate_relay": ROOT / "integrations/featuregate_relay",
    "featuregate_spark": ROOT / "integrations/featuregate_spark",
}
DOORS = {
    "featuregate": None,
    "featuregate.testing": None,
    "featuregate_confluent": "confluent_kafka",
    "featuregate_fleet": None,
    "featuregate_openfeature": "openfeature",
    "featuregate_spark": "pyspark",
}

# Each was a name of ours for something that Kafka, Spark or Python engineers call otherwise.
_REPLACED = """
befell binaries binary complaints conversation curious deaf deal dealer doubt finder foreign foresee foresight
garble guardian heard hurt judged mirrored mishap nobody notwhole onlooker patience patiently poisoned ratchet
registry remedies remedy revive ring roster settle shelf shelves standing standstill survey teller tells unprove
vocabulary wants wish witness witnessed
"""
REPLACED = set(_REPLACED.split())
REPLACED_IN = {
    "featuregate_confluent": REPLACED | {"mirror", "peek", "slot"},
    "featuregate_spark": REPLACED | {"memories", "memory", "slot", "useless"},
}


def words_of(name: str) -> list[str]:
    """Split a name: ``KRaftCluster`` is ``kraft cluster``, ``TLSConfig`` is ``tls config``."""
    whole = name.replace("KRaft", "Kraft").replace("ZooKeeper", "Zookeeper")
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", whole)]


def forms(word: str) -> set[str]:
    singulars = {re.sub(r"ies$", "y", word), re.sub(r"es$", "", word), re.sub(r"s$", "", word)}
    return {word} | singulars


@cache
def words_on_the_page() -> frozenset[str]:
    page = PAGE.read_text()
    terms = re.findall(r"^\| (?!word \|)(.+?) \|", page, re.MULTILINE)
    (plain,) = re.findall(r"^```text\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
    return frozenset(form for text in [*terms, plain] for word in words_of(text) for form in forms(word))


def strange_words(name: str) -> list[str]:
    return [word for word in words_of(name) if not forms(word) & words_on_the_page()]


def rooms(folder: Path) -> list[str]:
    top = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    deeper = [path.parent for path in folder.rglob("*/__init__.py")]
    return sorted({path.stem for path in [*top, *deeper] if not path.stem.startswith("_")})


@pytest.mark.parametrize(("door", "framework"), DOORS.items(), ids=DOORS)
def test_public_names_are_made_of_words_on_the_page(door: str, framework: str | None) -> None:
    """A reader can look up each word of each public name."""
    if framework:
        pytest.importorskip(framework)
    assert {name: strange for name in import_module(door).__all__ if (strange := strange_words(name))} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_are_named_with_words_on_the_page(package: str) -> None:
    """A new room takes a word that is known, or explains its own."""
    assert {room: strange for room in rooms(PACKAGES[package]) if (strange := strange_words(room))} == {}


def test_a_word_that_the_page_does_not_have_is_found() -> None:
    """The tests above would fail for such a name."""
    assert strange_words("LatchedRosterStore") == ["latched", "roster"]
    assert "confluent" not in words_on_the_page()


def test_each_word_is_explained_once() -> None:
    """Two rows for one word would be two meanings."""
    terms = re.findall(r"^\| (?!word \|)(.+?) \|.+\|$", PAGE.read_text(), re.MULTILINE)
    single = [term for row in terms for term in row.split(", ")]
    assert sorted({term for term in single if single.count(term) > 1}) == ["downgrade", "upgrade"]  # also commands


def test_the_page_has_few_words() -> None:
    """A reader learns these; what Kafka, Python and English say by themselves is below the tables."""
    assert len(re.findall(r"^\| (?!word \|)", PAGE.read_text(), re.MULTILINE)) <= 150


def public_names(tree: ast.Module) -> Iterator[str]:
    """Yield what a module defines: classes, functions, constants, attributes, and parameters of public callables."""
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body):
                plain = [target for each in body if isinstance(each, ast.Assign) for target in each.targets]
                yield from (name.id for target in plain for name in ast.walk(target) if isinstance(name, ast.Name))
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                yield name
                if not name.startswith("_") or name == "__init__":
                    yield from (arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs])


def comebacks(package: str, names: Iterator[str]) -> set[str]:
    gone = REPLACED_IN.get(package, REPLACED)
    return {name for name in names if not name.startswith("_") and any(forms(word) & gone for word in words_of(name))}


@pytest.mark.parametrize("package", PACKAGES)
def test_replaced_words_do_not_come_back(package: str) -> None:
    """No public name and no parameter holds a word that was replaced."""
    found = {
        str(path.relative_to(ROOT)): names
        for path in PACKAGES[package].rglob("*.py")
        if (names := comebacks(package, public_names(ast.parse(path.read_text()))))
    }
    assert found == {}


def test_a_replaced_word_is_seen_wherever_it_comes_back() -> None:
    """In a constant, a class, a method, a field and a parameter; not in what is private."""
    source = """
SETTLE_INTERVALS = 5
class FileShelf:
    SURVEY, OTHER = 1, 2
    roster: int
    _survey: int
    def peeks(self, witness): ...
    def _hidden(self, shelf): ...
"""
    found = comebacks("featuregate", public_names(ast.parse(source)))
    assert found == {"SETTLE_INTERVALS", "FileShelf", "SURVEY", "roster", "witness"}
    assert comebacks("featuregate_confluent", iter(["peeks", "slots"])) == {"peeks", "slots"}


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (option.lstrip("-") for option in action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield name
                yield from options(command)


def test_no_option_of_the_command_line_holds_a_replaced_word() -> None:
    """What operators type has the same words."""
    found = list(options(build_parser(all_plugins())))
    assert "bootstrap-server" in found
    # `fleet peek` looks at one log; in the switch the word stood for something else.
    assert comebacks("featuregate_confluent", iter(found)) == {"peek"}


def test_a_class_has_a_name_of_its_own() -> None:
    files = [path for folder in PACKAGES.values() for path in folder.rglob("*.py")]
    names = Counter(
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(names) > 500, "it looks for classes where there are none"
    assert [name for name, count in names.items() if count > 1] == []


_FRAGMENT = re.compile(
    r"(Of|Between|Not those|So|As many|(For|To|With|From|At|By|After|Within|Above|On|Until) which)\b"
    r"|That\b|\w+ .*\bso many times\b"
)
_FOLDERS = ("featuregate", "integrations", "benchmarks", "scripts", "tests", "docs", "examples")


def fragments(source: str) -> list[str]:
    texts = (
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return [text.splitlines()[0] for text in texts if _FRAGMENT.match(text)]


def test_a_docstring_can_be_read_without_its_code() -> None:
    """A docstring that continues a sentence which nobody sees says nothing in the reference or in an editor."""
    files = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py") if "_build" not in path.parts]
    assert {str(path.relative_to(ROOT)): found for path in files if (found := fragments(path.read_text()))} == {}


def test_a_docstring_that_continues_a_sentence_is_found() -> None:
    """In a function and in an attribute."""
    assert fragments('X = 10\n"""Of uvicorn, which has ten in a second."""') == [
        "Of uvicorn, which has ten in a second."
    ]
    assert fragments('def f():\n    """So that it does."""') == ["So that it does."]
    assert fragments('X = 10\n"""Ticks of the server in a second. So it says."""') == []

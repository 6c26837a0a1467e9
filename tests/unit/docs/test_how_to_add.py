"""What stands in several places stands in all of them, and the lists of these places name files that are there."""

import re
from typing import get_args

import pytest
from doc_pages import ROOT
from hypothesis import find
from requirement_forms import FORMS, Form
from strategies import conditions
from tables import form_table

from featuregate import requirements
from featuregate.cli.arguments.help_texts import COMMANDS_HELP
from featuregate.requirements import AnyCondition, AnyRequirement

REQUIREMENTS = "docs/reference/front-door.md"


def text(path: str) -> str:
    return (ROOT / path).read_text()


def test_the_lists_name_files_that_are_there() -> None:
    """A file that was renamed is noticed."""
    section = text("CONTRIBUTING.md").partition("\n## How to add\n")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:featuregate|integrations|tests|scripts|docs)/[^`]+)`", section)
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("kind", get_args(AnyCondition))
@pytest.mark.no_cover
def test_a_requirement_kind_is_exported_drawn_and_documented(kind: type) -> None:
    """By the strategies all properties of decisions and texts hold for it."""
    assert kind.__name__ in requirements.__all__
    assert isinstance(find(conditions, lambda condition: isinstance(condition, kind)), kind)
    assert re.search(rf"autoclass:: featuregate\.(requirements\.)?{kind.__name__}$", text(REQUIREMENTS), re.MULTILINE)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.text)
def test_a_form_of_text_parses_as_its_kind(form: Form) -> None:
    """What pages and help show is what the parser reads."""
    assert isinstance(requirements.parse(form.example), form.kind)


def test_each_requirement_kind_has_a_form_of_text() -> None:
    """A kind that people cannot write, or that nobody explains, is noticed."""
    assert {form.kind for form in FORMS} == set(get_args(AnyRequirement))


def test_help_and_pages_show_the_forms_of_text() -> None:
    """README has the table alone; the help is read without the parser."""
    assert f"\n\n{form_table()}\n\n" in text("README.md")
    width = max(len(form.text) for form in FORMS)
    lines = "\n".join(f"  {form.text:{width}}  {form.holds}" for form in FORMS)
    assert f"\n{lines}\n" in COMMANDS_HELP["check"].description

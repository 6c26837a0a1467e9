"""The grammar of marks and tags, which two integrations read: the tests of the switch have the rest."""

import pytest

from featuregate.group_marks import MODELS, read_mark, read_tag, tagged
from featuregate_confluent.latch.marks import Mark, write
from featuregate_confluent.models import Model


@pytest.mark.parametrize("model", Model)
def test_what_the_switch_writes_is_read(model: Model) -> None:
    """The models of both have the same names."""
    assert tuple(each.label for each in Model) == MODELS
    assert read_mark(write(Mark(model, "app|text"))) == (model.label, "app|text")
    assert read_tag(tagged("app", model.label)) == model.label

"""The tag in a client id."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate_confluent.latch import tags
from featuregate_confluent.models import Model

models = st.sampled_from(list(Model))
client_ids = st.text(st.characters(), max_size=20) | st.lists(
    st.sampled_from(["#fg=", "#", "=", "fg", "bridge", "v2", "v9", "app", "\n", " "]), max_size=8
).map("".join)


def test_a_tag_stands_at_the_end_of_the_client_id() -> None:
    """The prefix, by which operators search, stays."""
    assert tags.tagged("orders-app.1", Model.BRIDGE) == "orders-app.1#fg=bridge"


@given(client_id=client_ids, model=models)
@example("", Model.V2)
def test_a_tag_reads_as_it_was_written(client_id: str, model: Model) -> None:
    """The app's own client id may be any text."""
    assert tags.read(tags.tagged(client_id, model)) is model


@given(client_id=client_ids, first=models, second=models)
def test_tagging_twice_replaces(client_id: str, first: Model, second: Model) -> None:
    """A configuration that is used twice has one tag."""
    assert tags.tagged(tags.tagged(client_id, first), second) == tags.tagged(client_id, second)


@given(client_id=client_ids.filter(lambda text: "#fg=" not in text), model=models)
def test_nothing_else_of_the_client_id_is_touched(client_id: str, model: Model) -> None:
    """Quotas and dashboards may depend on it."""
    assert tags.tagged(client_id, model).removesuffix(f"#fg={model.label}") == client_id


def test_text_of_the_app_that_only_looks_like_a_tag_is_kept() -> None:
    """A tag is one word at the end."""
    assert tags.tagged("a#fg=b c", Model.V2) == "a#fg=b c#fg=v2"


@pytest.mark.parametrize(
    "client_id",
    [
        "",
        "rdkafka",
        "app#fg=",
        "app#fg=V2",
        "app#fg=v2 ",
        "app#fg=v2\n",
        "app#fg=v9",
        "#fg=bridge-1",
        "app fg=v2",
        "#fg=v2#",
    ],
)
def test_what_is_no_tag_of_ours_is_a_foreign_member(client_id: str) -> None:
    """An unknown tag promises nothing either."""
    assert tags.read(client_id) is None


@given(client_id=client_ids)
def test_reading_a_tag_is_total(client_id: str) -> None:
    """Any client id reads as a model or as none, and never raises."""
    assert tags.read(client_id) in (None, *Model)

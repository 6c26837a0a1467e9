"""The mark in an offset's metadata, and the tag in a client id."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.errors import ConfigError
from featuregate_confluent.errors import UnknownMark
from featuregate_confluent.latch.marks import LIMIT, Mark, read, write
from featuregate_confluent.models import Model, promised_by, tagged

any_text = st.text(st.characters(), max_size=60)  # surrogates and NULs included
pieces = st.sampled_from(["fg", "1", "2", ";", "|", "=", "model", "v2", "bridge", "legacy", "\0", "ü", " "])
like_ours = st.lists(pieces, max_size=12).map(lambda found: "fg1;" + "".join(found))
app_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
models = st.sampled_from(list(Model))
client_ids = st.text(st.characters(), max_size=20) | st.lists(
    st.sampled_from(["#fg=", "#", "=", "fg", "bridge", "v2", "v9", "app", "\n", " "]), max_size=8
).map("".join)

READ = {
    # auto-commit and admin tools leave None
    **dict.fromkeys([None, "", "\0", "\0\0"], Mark(None)),
    # a text ends at its first NUL: confluent-kafka writes one on the wire, and other clients return it
    **dict.fromkeys(["fg1;model=v2\0", "fg1;model=v2\0\0", "fg1;model=v2\0fg1;model=legacy"], Mark(Model.V2)),
    # only ``fg<digits>;`` begins a mark
    **{text: Mark(None, text) for text in ("fg", "fg;model=v2", "fg1", "fg1:model=v2", " fg1;model=v2")},
    **{text: Mark(None, text) for text in ("FG1;model=v2", "fg\u0661;a")},
    # fields that a later version adds do not change the meaning of those that are known
    **dict.fromkeys(["fg1;model=v2;since=4|of an app", "fg1;since=4;model=v2;|of an app"], Mark(Model.V2, "of an app")),
    **dict.fromkeys(["fg1;;model=v2;flag|of an app", "fg1;Model=x;model=v2|of an app"], Mark(Model.V2, "of an app")),
    # the first bar begins the app's text, which may hold anything
    "fg1;model=v2|a|fg1;model=legacy": Mark(Model.V2, "a|fg1;model=legacy"),
}
NEWER = ("fg2;model=v2", "fg10;", "fg0;model=v2", "fg01;model=v2", "fg1;model=v3", "fg1;model=V2")
DAMAGED = ("fg1;", "fg1;|x", "fg1;model", "fg1;model=", "fg1;mod", "fg1;mode|l=v2", "fg1;model=v2;model=legacy")


@pytest.mark.parametrize(("text", "mark"), READ.items())
def test_metadata_is_read(text: str | None, mark: Mark) -> None:
    assert read(text) == mark


@pytest.mark.parametrize("text", [*NEWER, *DAMAGED])
def test_what_is_newer_or_damaged_is_refused_and_lowers_no_latch(text: str) -> None:
    """To read it as no mark would lose the latch of the group."""
    with pytest.raises(UnknownMark) as raised:
        read(text)
    assert raised.value.text == text.partition("|")[0]


def test_what_is_refused_is_shown_without_the_apps_text() -> None:
    """It is also cut, because it came from the network."""
    with pytest.raises(UnknownMark) as raised:
        read(f"fg2;{'x' * 5000}|private")
    assert len(raised.value.text) == 200
    with pytest.raises(UnknownMark) as raised:
        read("fg2;a=b|private")
    assert "private" not in str(raised.value)


@given(mark=st.builds(Mark, models, app_text), text=app_text.filter(lambda text: not text.startswith("fg")))
def test_what_is_written_reads_as_it_was(mark: Mark, text: str) -> None:
    """Format 1 names the model by its label; without a model, no mark is added."""
    assert read(write(mark)) == mark
    assert mark.model is not None
    assert write(Mark(mark.model)) == f"fg1;model={mark.model.label}"
    assert write(mark).startswith(f"fg1;model={mark.model.label}")
    assert write(read(text)) == read(text).app_metadata == text


@given(text=st.none() | any_text | like_ours)
@example("fg1;model=v2|\ud800")
def test_reading_is_total(text: str | None) -> None:
    """Any text is a mark or is refused, and a mark that was read can be written and read again."""
    try:
        mark = read(text)
    except UnknownMark:
        return
    assert read(write(mark)) == Mark(mark.model, mark.app_metadata.encode(errors="replace").decode())


@given(
    mark=st.builds(Mark, models | st.none(), st.text(st.characters(), min_size=1, max_size=4).map(lambda s: s * 2000))
)
@example(Mark(Model.V2, "ü" * 3000))
@example(Mark(None, "😀" * 3000))
@example(Mark(Model.V2, "x" * (LIMIT - len("fg1;model=v2|"))))
@example(Mark(Model.V2, "x" * (LIMIT - len("fg1;model=v2|") + 1)))
def test_what_does_not_fit_is_cut_from_the_apps_text_and_never_from_the_mark(mark: Mark) -> None:
    """It is cut between two characters, as late as possible: 4095 bytes, which confluent-kafka makes 4096."""
    written = write(mark)
    size = len(written.encode())
    assert size <= LIMIT
    assert "\0" not in written
    assert read(written).model is mark.model
    kept = read(written).app_metadata
    wanted = mark.app_metadata.partition("\0")[0].encode(errors="replace").decode()
    assert wanted.startswith(kept)
    assert kept == wanted or size + len(wanted[len(kept)].encode()) > LIMIT


def test_a_text_of_the_app_that_would_read_as_a_mark_is_refused() -> None:
    """Without a model it would become a latch on which no member decided."""
    with pytest.raises(ConfigError) as raised:
        write(Mark(None, f"fg1;{'x' * 300}"))
    shown = f"'fg1;{'x' * 196}'"
    assert str(raised.value) == f"metadata: {shown} begins like a mark of featuregate: begin it otherwise"


@given(client_id=client_ids, first=models, model=models)
@example("orders-app.1", Model.V2, Model.BRIDGE)
@example("a#fg=b c", Model.V2, Model.V2)
@example("", Model.V2, Model.V2)
def test_a_tag_stands_at_the_end_and_reads_as_it_was_written(client_id: str, first: Model, model: Model) -> None:
    """It replaces another one. Nothing else is touched: quotas and dashboards may depend on it."""
    assert promised_by(tagged(client_id, model)) is model
    assert tagged(tagged(client_id, first), model) == tagged(client_id, model)
    assert client_id.startswith(tagged(client_id, model).removesuffix(f"#fg={model.label}"))
    if not client_id.rpartition("#fg=")[1] or " " in client_id.rpartition("#fg=")[2]:
        assert tagged(client_id, model) == f"{client_id}#fg={model.label}"


UNTAGGED = ("", "rdkafka", "app#fg=", "app#fg=V2", "app#fg=v2 ", "app#fg=v2\n", "app#fg=v9", "#fg=bridge-1")


@pytest.mark.parametrize("client_id", [*UNTAGGED, "app fg=v2", "#fg=v2#"])
def test_what_is_no_tag_of_ours_is_a_foreign_member(client_id: str) -> None:
    """An unknown tag promises nothing either."""
    assert promised_by(client_id) is None

"""The mark in an offset's metadata."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.errors import ConfigError
from featuregate_confluent.errors import UnknownMark
from featuregate_confluent.latch.marks import LIMIT, Mark, read, write
from featuregate_confluent.models import Model

any_text = st.text(st.characters(), max_size=60)  # surrogates and NULs included
pieces = st.sampled_from(["fg", "1", "2", ";", "|", "=", "model", "v2", "bridge", "legacy", "\0", "ü", " "])
like_ours = st.lists(pieces, max_size=12).map(lambda found: "fg1;" + "".join(found))
app_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
models = st.sampled_from(list(Model))


@pytest.mark.parametrize("model", list(Model))
def test_a_mark_is_a_short_text_that_people_can_read(model: Model) -> None:
    """Format 1 names the model by its label."""
    assert write(Mark(model)) == f"fg1;model={model.label}"


@given(mark=st.builds(Mark, models, app_text))
def test_what_is_written_reads_as_it_was(mark: Mark) -> None:
    """The model and the app's text are both read back."""
    assert read(write(mark)) == mark


@given(text=app_text.filter(lambda text: not text.startswith("fg")))
def test_text_of_the_app_alone_is_carried_as_it_is(text: str) -> None:
    """Without a model, no mark is added."""
    assert read(text) == Mark(None, text)
    assert write(Mark(None, text)) == text


@pytest.mark.parametrize("nothing", [None, "", "\0", "\0\0"])
def test_no_metadata_is_no_mark(nothing: str | None) -> None:
    """Auto-commit and admin tools leave None."""
    assert read(nothing) == Mark(None)


@pytest.mark.parametrize("text", ["fg1;model=v2\0", "fg1;model=v2\0\0", "fg1;model=v2\0fg1;model=legacy"])
def test_a_text_ends_at_its_first_nul(text: str) -> None:
    """confluent-kafka writes a NUL on the wire, and other clients return it."""
    assert read(text) == Mark(Model.V2)


@pytest.mark.parametrize(
    "text", ["fg", "fg;model=v2", "fg1", "fg1:model=v2", " fg1;model=v2", "FG1;model=v2", "fg\u0661;a"]
)
def test_what_does_not_begin_like_a_mark_is_the_apps(text: str) -> None:
    """Only ``fg<digits>;`` begins a mark."""
    assert read(text) == Mark(None, text)


@pytest.mark.parametrize(
    "text", ["fg1;model=v2;since=4", "fg1;since=4;model=v2;", "fg1;;model=v2;flag", "fg1;Model=x;model=v2"]
)
def test_fields_that_a_later_version_adds_are_passed_over(text: str) -> None:
    """They belong to format 1 as long as they do not change the meaning of the known fields."""
    assert read(text + "|the app's") == Mark(Model.V2, "the app's")


def test_the_first_bar_begins_the_apps_text() -> None:
    """The app's text may hold anything, bars and marks included."""
    assert read("fg1;model=v2|a|fg1;model=legacy") == Mark(Model.V2, "a|fg1;model=legacy")


@pytest.mark.parametrize(
    "text", ["fg2;model=v2", "fg10;", "fg0;model=v2", "fg01;model=v2", "fg1;model=v3", "fg1;model=V2"]
)
def test_what_is_newer_is_refused_and_never_read_as_nothing(text: str) -> None:
    """An old member must not run beside a model that it does not know."""
    with pytest.raises(UnknownMark) as raised:
        read(text)
    assert raised.value.text == text


@pytest.mark.parametrize(
    "text", ["fg1;", "fg1;|x", "fg1;model", "fg1;model=", "fg1;mod", "fg1;mode|l=v2", "fg1;model=v2;model=legacy"]
)
def test_what_is_damaged_is_refused_and_lowers_no_latch(text: str) -> None:
    """To read a damaged mark as no mark would lose the latch of the group."""
    with pytest.raises(UnknownMark):
        read(text)


def test_what_is_refused_is_shown_without_the_apps_text() -> None:
    """It is also cut, because it came from the network."""
    with pytest.raises(UnknownMark) as raised:
        read(f"fg2;{'x' * 5000}|private")
    assert len(raised.value.text) == 200
    with pytest.raises(UnknownMark) as raised:
        read("fg2;a=b|private")
    assert "private" not in str(raised.value)


@given(text=st.none() | any_text | like_ours)
@example("fg1;model=v2|\ud800")
def test_reading_is_total(text: str | None) -> None:
    """Any text is a mark or is refused, and a mark that was read can be written and read again."""
    try:
        mark = read(text)
    except UnknownMark:
        return
    written = write(mark)
    assert read(written) == Mark(mark.model, mark.app_metadata.encode(errors="replace").decode())


@given(
    mark=st.builds(Mark, models | st.none(), st.text(st.characters(), min_size=1, max_size=4).map(lambda s: s * 2000))
)
@example(Mark(Model.V2, "ü" * 3000))
@example(Mark(None, "😀" * 3000))
def test_what_does_not_fit_is_cut_from_the_apps_text_and_never_from_the_mark(mark: Mark) -> None:
    """It is cut between two characters, as late as possible."""
    written = write(mark)
    size = len(written.encode())
    assert size <= LIMIT
    assert "\0" not in written
    assert read(written).model is mark.model
    kept = read(written).app_metadata
    wanted = mark.app_metadata.partition("\0")[0].encode(errors="replace").decode()
    assert wanted.startswith(kept)
    assert kept == wanted or size > LIMIT - 4


def test_the_longest_text_that_fits_is_kept_whole() -> None:
    """4095 bytes, which confluent-kafka makes 4096."""
    room = LIMIT - len("fg1;model=v2|")
    assert read(write(Mark(Model.V2, "x" * room))).app_metadata == "x" * room
    assert len(write(Mark(Model.V2, "x" * (room + 1)))) == LIMIT


def test_a_text_of_the_app_that_would_read_as_a_mark_is_refused() -> None:
    """Without a model it would become a latch on which no member decided."""
    with pytest.raises(ConfigError) as raised:
        write(Mark(None, f"fg1;{'x' * 300}"))
    shown = f"'fg1;{'x' * 196}'"
    assert str(raised.value) == f"metadata: {shown} begins like a mark of featuregate: begin it otherwise"

"""The demo's picture is valid, and readable."""

import importlib
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"title": 19, "panel": 14}
WIDEST_LETTER = 0.62
"""Of an average word, in font sizes: wider than any common sans-serif font is."""


@pytest.fixture
def demo(monkeypatch):
    """The modules of the demo, which are scripts beside each other and no package."""
    monkeypatch.syspath_prepend(EXAMPLES)
    names = ("demo_picture", "demo_tally", "demo_timeline")
    return tuple(importlib.import_module(name) for name in names)


def story(demo, ends, duplicates=(), title="Exactly-once"):
    """Draw a story whose steps end at these seconds."""
    picture, tally, timeline = demo
    steps = [timeline.Span(f"step {n}", a, b) for n, (a, b) in enumerate(zip((0, *ends), ends, strict=False))]
    lanes = [picture.Lane("broker 1", [timeline.Span("2.4.1", 0, ends[0]), timeline.Span("2.8.2", ends[0], ends[-1])])]
    sleep = [timeline.Span("zombie", step.begin + 1, step.begin + (step.end - step.begin) / 2) for step in steps]
    member = picture.Lane("instance 1", [timeline.Span("legacy", 0, ends[-1] / 2)], sleep)
    counts = [tally.Count(1000, sum(step.begin <= at < step.end for at in duplicates), 0) for step in steps]
    return picture.draw(
        picture.Picture(
            title=title,
            subtitle="two apps",
            steps=steps,
            brokers=lanes,
            gate=picture.Lane("gate", [timeline.Span("open", 0, ends[-1])]),
            panels=[picture.Panel("With", [member, member], duplicates, counts, {"legacy": "legacy"})] * 2,
            old="2.4.1",
            legend=[[picture.Key(24, "legacy", "one producer for each partition")]] * 2,
        )
    )


def boxes(svg):
    """Estimate the box of each text: left, top, right, bottom."""
    for text in ET.fromstring(svg).iter(f"{SVG}text"):
        words, classes = text.text or "", text.get("class", "").split()
        size = next((SIZES[name] for name in classes if name in SIZES), 12)
        width = len(words) * size * WIDEST_LETTER
        left = float(text.get("x", 0)) - {"middle": width / 2, "end": width}.get(
            next((name for name in classes if name in {"middle", "end"}), ""), 0
        )
        bottom = float(text.get("y", 0))
        yield words, (left, bottom - size * 0.8, left + width, bottom + size * 0.2)


def covering(svg):
    """Return the texts that overlap."""
    for (one, a), (other, b) in combinations(boxes(svg), 2):
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
            yield one, other


ENDS = [(25, 50, 78, 120), (100, 300, 611), (30, 42, 55, 90), (2, 3, 4, 300), (60,)]


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_no_text_covers_another(demo, ends):
    """A text that does not fit is left out, however short its step is."""
    svg = story(demo, ends, duplicates=[1.5] * 1234 + [ends[-1] - 1] * 5)
    assert len(list(boxes(svg))) > 10
    assert list(covering(svg)) == []


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_no_text_leaves_the_page(demo, ends):
    """The page is as high as its contents."""
    svg = story(demo, ends)
    _, _, width, height = map(float, ET.fromstring(svg).get("viewBox", "").split())
    for words, (left, top, right, bottom) in boxes(svg):
        assert min(left, top) >= 0, words
        assert right <= width, words
        assert bottom <= height, words


def test_the_check_sees_a_text_that_covers_another(demo):
    """Two texts at one place overlap."""
    svg = story(demo, (60,)).replace("</svg>", '<text x="24" y="36" class="title">over it</text></svg>')
    assert [{one, other} for one, other in covering(svg)] == [{"Exactly-once", "over it"}]


def test_more_duplicates_stand_higher(demo):
    """The tallest bar is the second with the most."""
    svg = story(demo, (60,), duplicates=[10.0, 20.0, 20.1, 20.2])
    bars = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.get("class") == "twice"]
    assert [float(bar.get("height", 0)) for bar in bars] == pytest.approx([40 / 3, 40, 40 / 3, 40], abs=0.1)


def test_a_bar_keeps_its_name_beside_sleep(demo):
    """Each piece between sleeps has a name, even where the bar ends before the last sleep."""
    picture, _, timeline = demo
    legacy = timeline.Span("legacy", 0, 60)
    sleeps = [timeline.Span("zombie", begin, begin + 10) for begin in (10, 30, 70)]
    pieces = [(piece.begin, piece.end) for piece in picture.awake(legacy, sleeps) if piece.begin < piece.end]
    assert pieces == [(0, 10), (20, 30), (40, 60)]
    late = timeline.Span("v2", 35, 75)
    pieces = [(piece.begin, piece.end) for piece in picture.awake(late, sleeps) if piece.begin < piece.end]
    assert pieces == [(40, 70)]


def test_a_run_without_duplicates_is_drawn_too(demo):
    """There is no bar, and a green zero."""
    svg = story(demo, (60,))
    assert 'class="twice"' not in svg
    assert "0 duplicates" in svg


def test_names_cannot_break_out_of_the_picture(demo):
    """The file is valid SVG whatever the name of a release is."""
    svg = story(demo, (60,), title='<script x="&">')
    assert ET.fromstring(svg).find(f"{SVG}title").text == '<script x="&">'


def test_it_is_coloured_for_dark_pages_too(demo):
    """Each class that colours text has a colour for dark pages, or its text is on a coloured bar."""
    svg = story(demo, (60,))
    day, night = svg.split("@media (prefers-color-scheme: dark)")
    night = night.split("</style>")[0]
    assert ".paper" in day
    assert all(name in night for name in (".paper", "text ", ".quiet", ".good", ".bad"))

"""From the text of a page to samples: what is damaged, hostile or too large."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_pages import NOW, REQUESTS, SOFTWARE, page

from featuregate.catalog import captured
from featuregate_fleet.metrics import samples
from featuregate_fleet.metrics.pages import Page, evidence_of
from featuregate_fleet.metrics.samples import MOST_SAMPLES, PageError, samples_of
from featuregate_fleet.metrics.spellings import Requests
from featuregate_fleet.metrics.verdicts import judge
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.rows import Verdict


def line(api: str, value: str = "1.0") -> str:
    return f'{REQUESTS}{{request="{api}",version="3"}} {value}'


def found(text: str) -> dict[object, float]:
    return {one.meaning: one.value for one in samples_of(text.encode()).samples}


def test_a_damaged_line_stops_nothing_but_itself() -> None:
    """It is counted, and the lines around it are read; the parser raises an IndexError for the last one."""
    damaged = [f"{REQUESTS}{{request=", f"{REQUESTS} x", f'{REQUESTS}{{a="b",\r="Fetch",version="3"}} 7.0']
    read = samples_of("\n".join([line("Fetch"), *damaged, line("Produce"), ""]).encode())
    assert [one.meaning for one in read.samples] == [Requests("Fetch", 3), Requests("Produce", 3)]
    assert read.unread == 3


def test_escapes_in_names_are_decoded() -> None:
    """Quotes, backslashes and line breaks in a label are part of it, and make no other line."""
    assert list(found(line(r"a\"b\\c\nd"))) == [Requests('a"b\\c\nd', 3)]


def test_other_metrics_are_not_parsed() -> None:
    """What they say cannot be wrong: exporters write values that no parser takes."""
    read = samples_of(b"kafka_log_size{topic= 1\njvm_x NaN\n# HELP x\n" + page({("Fetch", 3): 1}, started=None))
    assert (len(read.samples), read.unread) == (1, 0)


def test_a_long_line_is_not_parsed() -> None:
    """A label of a megabyte is no name of an API."""
    read = samples_of(f"{line('x' * 1_000_000)}\n{line('Fetch')}\n".encode())
    assert ([one.meaning for one in read.samples], read.unread) == ([Requests("Fetch", 3)], 1)


def test_a_page_that_ends_within_a_line_is_cut() -> None:
    """Whatever that line is about: what came after it is not known."""
    assert samples_of(f"{line('Fetch')}\njvm_x".encode()).unread == 1
    assert samples_of(f"{line('Fetch')}\r\n".encode()).unread == 0


def test_blanks_before_a_name_hide_nothing() -> None:
    """The text format ignores them; a page may be pasted from somewhere."""
    assert found(f" \t{line('Fetch')}\n") == {Requests("Fetch", 3): 1.0}


def test_a_page_with_more_samples_than_a_broker_has_is_refused() -> None:
    """A million values of a label would be a million objects."""
    with pytest.raises(PageError, match="more than 50000 samples"):
        samples_of("\n".join(line(f"a{number}") for number in range(MOST_SAMPLES + 1)).encode())


def test_a_page_with_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in it."""
    monkeypatch.setattr(samples, "MOST_PAGE_BYTES", 100)
    with pytest.raises(PageError, match="more than 100 bytes"):
        samples_of(b"#" * 101)


def test_bytes_that_are_no_text_are_read_as_far_as_they_are() -> None:
    """A page in another code has no metric that is known."""
    assert not samples_of(b"\xff\xfe\x00k\x00a").samples
    assert not samples_of(b"").samples


def test_timestamps_and_types_are_taken() -> None:
    """The text format allows both."""
    text = f"# TYPE {REQUESTS} counter\n{line('Fetch')} 1795945313000\n"
    assert found(text) == {Requests("Fetch", 3): 1.0}


NAMES = st.sampled_from(
    [REQUESTS, "kafka_network_requestmetrics_deprecatedrequests_total", "kafka_network_RequestMetrics_Count", SOFTWARE]
)
LABELS = st.sampled_from(
    ["request", "version", "name", "clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor"]
)
TEXTS = st.one_of(st.text(), st.sampled_from(["Fetch", "3", "-1", "99999", "RequestsPerSec", "Fetch, version=3", "="]))
LINES = st.builds(
    lambda name, labels, value: (
        f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels.items())}}} {value}"
    ),
    NAMES,
    st.dictionaries(LABELS, TEXTS),
    st.one_of(st.floats(), st.text()),
)


@given(st.lists(st.one_of(LINES, st.text()), max_size=8), st.binary(max_size=50))
def test_invariant_18_no_page_raises(lines: list[str], noise: bytes) -> None:
    """Whatever is in it: what is read is judged, and all else is counted."""
    page_of_anybody = "\n".join(lines).encode(errors="replace") + noise
    evidence = evidence_of([Page("1", NOW, samples_of(page_of_anybody))], NOW, NOW)
    report = judge(evidence, ReleaseApis(captured()["4.2"]), {}, 1)
    assert report.verdict is not Verdict.OK

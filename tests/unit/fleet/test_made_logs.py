"""The generator of request logs for benchmarks: its lines are those of real brokers."""

import sys
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest

from featuregate_fleet.evidence.lines.envelopes import unwrap
from featuregate_fleet.evidence.lines.one_line import read_line
from featuregate_fleet.evidence.lines.refusals import is_header, is_reason, refusal_of
from featuregate_fleet.evidence.lines.request import LoggedRequest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from request_logs import Mix, made_lines, write_logs


def test_the_same_seed_makes_the_same_lines():
    """Runs on two machines measure the same work."""
    first, again, other = (list(islice(made_lines(seed, Mix()), 50)) for seed in (7, 7, 8))
    assert first == again != other


def test_most_lines_are_requests():
    """With the length of real ones, which is what reading costs."""
    lines = list(islice(made_lines(7, Mix()), 5000))
    assert sum(isinstance(read_line(line.rstrip("\n")), LoggedRequest) for line in lines) > 0.98 * len(lines)
    assert 1000 < sum(map(len, lines)) / len(lines) < 1600


@pytest.mark.no_cover
def test_some_requests_are_refused_and_some_lines_are_garbage():
    """So that a benchmark writes each table: one request of 1,000 is refused, and 1 % of the lines is garbage."""
    lines = [line.rstrip("\n") for line in islice(made_lines(7, Mix()), 20_000)]
    refused = sum(refusal_of(unwrap(line).text, unwrap(before)) is not None for before, line in pairwise(lines))
    assert 10 < refused < 40
    others = [line for line in lines if not isinstance(read_line(line), LoggedRequest)]
    garbage = [line for line in others if not is_header(line) and not is_reason(line)]
    assert len(others) == len(garbage) + 4 * refused
    assert 0.005 < len(garbage) / len(lines) < 0.015


@pytest.mark.parametrize(("first", "share"), [(None, (0.05, 0.5)), (0.9, (0.85, 0.95))])
def test_one_client_may_send_most(first: float | None, share: tuple[float, float]):
    """A key with most of the rows is what skew is about."""
    made = [read_line(line.rstrip("\n")) for line in islice(made_lines(7, Mix(first=first)), 5000)]
    names = Counter(one.client_id for one in made if isinstance(one, LoggedRequest) and one.client_id != "1")
    assert share[0] < names.most_common(1)[0][1] / names.total() < share[1]


def test_files_have_the_lines_that_were_asked_for(tmp_path: Path):
    """Below the folders of brokers, as the pipeline reads them."""
    files = write_logs(tmp_path, 1001, brokers=2)
    assert sum(len(file.read_text().splitlines()) for file in files) == 1001
    assert {file.parent.name for file in files} == {"1"}

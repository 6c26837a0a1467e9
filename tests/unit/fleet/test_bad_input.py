"""Bad input is counted, not lost: garbage among real lines, and huge lines."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from fleet_rows import parsed_file  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.lines.one_line import read_line  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import LoggedRequest  # noqa: E402 - likewise
from featuregate_fleet.evidence.text import LONGEST  # noqa: E402 - likewise

REQUESTS = 2_000


def garbage(random_: random.Random, line: bytes) -> bytes:
    """Return bytes that are no request: noise, half a line, a line with the middle of another one, or nothing."""
    noise = random_.randbytes(random_.randrange(200)).replace(b"\n", b"")
    cut = random_.randrange(40, len(line) // 2)  # as text, a line that lacks the end of its last field is understood
    return random_.choice([noise, line[:cut], line[:cut] + line[:cut], noise + b"Completed request:{", b"", b"\0" * 50])


def totals(path: Path) -> tuple[dict[str, int], int, int]:
    """Read a file of broker 1; return the counts of its lines, the requests, and the rows of the quarantine."""
    found = parsed_file(path)
    lines = {name: sum(row[name] for row in found["source"]) for name in ("read", "rows", "quarantined")}
    usage, lost = (
        sum(row[name] for row in found[kind]) for kind, name in (("usage", "count"), ("quarantine", "lines"))
    )
    return lines, usage, lost


@pytest.mark.parametrize("real_lines", ["3.9.2", "4.2.0"], indirect=True)
@pytest.mark.parametrize("percent", [5, 50])
@pytest.mark.no_cover
def test_garbage_among_real_lines_hides_none_of_them(tmp_path: Path, real_lines: Sequence[str], percent: int):
    """Each line is a row or in quarantine, and all requests of a real broker are rows."""
    random_ = random.Random(percent)
    requests = [line.encode() for line in real_lines if isinstance(read_line(line), LoggedRequest)]
    text, bad = [], 0
    for number in range(REQUESTS):
        line = requests[number % len(requests)]
        if random_.randrange(100) < percent:
            text.append(garbage(random_, line))
            bad += 1
        else:
            text.append(line)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_bytes(b"".join(line + b"\n" for line in text))
    lines, usage, quarantined = totals(tmp_path / "1" / "log")
    again = sum(not line.strip() and not before.strip() for before, line in pairwise(text))  # a run counts as one
    more = sum(max(line.count(b"Completed request:") - 1, 0) for line in text)  # each request counts
    lost = bad - again + more
    assert lines == {"read": REQUESTS - again + more, "rows": REQUESTS - bad, "quarantined": lost}
    assert (usage, quarantined) == (REQUESTS - bad, lost)


@pytest.mark.no_cover
def test_huge_lines_are_counted(tmp_path: Path):
    """Of more bytes than a line may have, with a request before and behind."""
    line = (Path(__file__).parents[2] / "data/request_logs/4.2.0.log").read_bytes().splitlines()
    request = next(each for each in line if isinstance(read_line(each.decode()), LoggedRequest))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_bytes(b"\n".join([request, request + b"x" * LONGEST, request, b"x" * LONGEST, b""]))
    assert totals(tmp_path / "1" / "log") == ({"read": 4, "rows": 2, "quarantined": 2}, 2, 2)

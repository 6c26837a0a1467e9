"""``featuregate fleet peek``: a look at one log, without Spark."""

import gzip
import io
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fleet_lines import document, line_of
from transcripts import in_this_process, replayed, sections

pytest.importorskip("pyarrow")

from featuregate.cli import main

ROOT = Path(__file__).parents[3]
LOGS = ROOT / "tests" / "data" / "request_logs"
OLD = LOGS / "3.9.2.log"


def peek(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["fleet", "peek", *map(str, arguments)])
    return code, capsys.readouterr().out


SCENES = sections(__file__, "peek.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_a_look_is_as_kept(
    scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It is no verdict, and says how many requests it takes for those of nodes."""
    monkeypatch.chdir(tmp_path)
    request = next(line for line in OLD.read_text().splitlines() if "Completed" in line)
    texts = {"empty": "", "hello": "hello\n", "layout": request.replace("2026-11-22", "03-04-2026").replace(",", ".")}
    for name, text in texts.items():
        Path(name).write_text(text)

    named = {"LOG": str(OLD), "OF_2_4": str(LOGS / "2.4.1.log")}
    assert replayed(SCENES[scene], in_this_process(capsys), named, list) == SCENES[scene]


def test_software_that_cannot_work_is_named_though_its_log_is_steady(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """As readiness does: its next lookup of an offset fails."""
    log = tmp_path / "request.log"
    software = {"softwareName": "confluent-kafka-python", "softwareVersion": "1.5.0-rdkafka-1.5.0"}
    log.write_text("\n".join([line_of(document(clientInformation=software, requestApiVersion=11))] * 3))
    code, said = peek(capsys, log, "--to", "4.2")
    assert code == 1
    assert "block  client 'audit'" in said
    assert "ListOffsets 0" in said


def test_standard_input_and_gzip_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """As people have logs."""
    packed = tmp_path / "old.log.gz"
    packed.write_bytes(gzip.compress(OLD.read_bytes()))
    rows = [json.loads(peek(capsys, name, "--to", "4.2", "--output", "json")[1])["rows"] for name in (OLD, packed)]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OLD.read_bytes())))
    rows.append(json.loads(peek(capsys, "-", "--to", "4.2", "--output", "json")[1])["rows"])
    assert rows[0] == rows[1] == rows[2]
    assert {row["verdict"] for row in rows[0]} >= {"block", "ok"}


REFUSAL = """\
[2026-11-22 21:08:02,254] ERROR Closing socket for 10.0.0.1:9092-10.0.0.5:5000-1 because of error
[2026-11-22 21:08:02,254] INFO of another file (a.Logger)
org.apache.kafka.common.errors.UnsupportedVersionException: Received request for api with key 2 (ListOffsets) and \
unsupported version 0"""


@pytest.mark.parametrize(
    "lines",
    [
        line_of(document(), head="[05/11/2026 21:08:02] DEBUG"),
        line_of(document(), head="[2026-02-30 21:08:02,254] DEBUG"),
        line_of(document(requestApiVersion="0")),
        line_of(document(clientInformation=None)),
        line_of(document()).replace('"', "&quot;"),
        line_of(document()).replace('"', "'"),
        line_of(document()).replace("Completed request", "Completed  request"),
        REFUSAL,
        "Nov 22 21:08:02 b1 systemd-journald[410]: Suppressed 7124 messages from kafka.service",
    ],
)
def test_one_whole_request_that_is_not_understood_is_no_ok(
    lines: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """All lines of a client may be like it, so that nothing is random: it is never one of few that are damaged."""
    log = tmp_path / "request.log"
    log.write_text("\n".join([*[line_of(document())] * 200, lines, *[line_of(document())] * 200]))
    code, said = peek(capsys, log, "--to", "4.2")
    assert code == 3
    assert "nobody in what was read breaks" in said


def test_damaged_gzip_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What was read before the damage counts."""
    packed = tmp_path / "old.log.gz"
    packed.write_bytes(gzip.compress(OLD.read_bytes())[:-40])
    assert "unreadable: " in peek(capsys, packed, "--to", "4.2")[1]


def test_pyarrow_is_all_that_is_needed():
    """A look takes a second: neither Spark nor Java nor what else the pipeline has is there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = f"""
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {{"pyspark", "py4j", "pandas", "jinja2", "jgo"}}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from featuregate.cli import main
sys.exit(main(["fleet", "peek", {str(OLD)!r}, "--to", "4.2"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "block    client 'ancient'" in done.stdout
    assert [each.partition(">")[0] for each in extras["peek"]] == ["pyarrow"]


DEPRECATED = {"requestApiKey": 11, "requestApiVersion": 1, "requestApiVersionDeprecated": True}


@pytest.mark.parametrize("move", [("--to", "4.2"), ("--drop-api", "Fetch<12")])
@pytest.mark.parametrize(
    "lines",
    [
        line_of(document(**DEPRECATED), head="[2026-11-22 21:08:02,254] INFO"),
        REFUSAL.replace("[2026-11-22 21:08:02,254] INFO of another file (a.Logger)\n", "").replace(
            "version 0", "version 99"
        ),
    ],
)
def test_a_log_without_requests_at_debug_is_no_ok(
    lines: str, move: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """At INFO a broker logs deprecated requests alone, and a server.log has those that brokers refuse."""
    log = tmp_path / "request.log"
    log.write_text(lines)
    code, said = peek(capsys, log, *move)
    assert code == 3
    assert "it has no requests at DEBUG" in said
    assert "nobody in it breaks" not in said
    assert json.loads(peek(capsys, log, *move, "--output", "json")[1])["lacks"].startswith("it has no requests at")

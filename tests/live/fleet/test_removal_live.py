"""What is removed from real tables, and what stays."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fleet_lines import document, line_of

from featuregate.cli import main
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.stream.upkeep import Removal, compact, forgetting, plan, remove, retention
from featuregate_fleet.tables.folder import Tables
from featuregate_fleet.tables.line_counts import read_line_counts

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

PRINCIPAL = "User:ANONYMOUS"
ESCAPED = "User:CN=Audit\\, Bill"
"""As a certificate names it: with a comma that is part of the name."""


def data_files(tables: Path, table: str) -> list[Path]:
    """Return the files with rows of a table, of all its versions."""
    return list((tables / table).glob("cluster=*/*.parquet"))


def forget(found: Tables) -> int:
    """Forget the principal, of whom no row tells any more, and return how many lines in quarantine were of it."""
    reports = found.read("readiness").collect()
    assert any(PRINCIPAL in row.subject for row in reports)
    usage = found.read("api_usage").collect()
    assert usage
    its = [row for row in usage if row.principal == PRINCIPAL]
    counts = plan(found, forgetting(PRINCIPAL)).counts
    assert counts["api_usage"] == len(its)
    assert counts["quarantine"] >= 1
    assert counts["log_lines"] >= counts["quarantine"] + len(its)
    assert plan(found, forgetting(ESCAPED)).counts["quarantine"] == 1
    assert found.read("log_lines").where(f"principal = '{PRINCIPAL}' and connection is not null").count()
    remove(found, forgetting(PRINCIPAL))
    left = found.read("api_usage").collect()
    assert sum(row["count"] for row in left) == sum(row["count"] for row in usage)
    assert {row.client_id for row in left if row.principal is None} <= {None}
    assert set(plan(found, forgetting(PRINCIPAL)).counts.values()) == {0}
    nameless = found.read("readiness").collect()
    assert not any(PRINCIPAL in str(row.asDict()) for row in nameless)
    assert [row.verdict for row in nameless] == [row.verdict for row in reports]
    assert found.read("log_lines").where("raw is null and connection is not null").isEmpty()
    assert found.read("quarantine").where("raw = '' and not whole").count() == counts["quarantine"]
    return counts["quarantine"]


@pytest.mark.usefixtures("jvm")
def test_what_is_removed_was_shown_before(broker_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Old rows go, one principal loses its name, the requests of others stay, and no file keeps what is gone."""
    folder, tables = tmp_path / "logs" / "1", tmp_path / "tables"
    folder.mkdir(parents=True)
    place = ["--tables", str(tables), "--cluster", "c"]
    run = ["fleet", "run", "--once", "--logs", str(folder.parent), *place, "--keep-raw"]
    text = broker_log.read_text()
    old = re.sub(r"^(\[?)20\d\d", r"\g<1>2020", text, flags=re.MULTILINE)
    (folder / "new.log").write_text(text)
    assert main(run) == 0
    (folder / "old.log").write_text(f"{old}\ncut for {PRINCIPAL}\ncut for {json.dumps(ESCAPED)}\n")
    assert main(run) == 0

    retain = ["fleet", "retain", "--days", "365", *place]
    capsys.readouterr()
    assert main(retain) == 0
    said = capsys.readouterr().out
    (checksum,) = re.findall(r"add --checksum (\w+)", said)
    (old_rows,) = map(int, re.findall(r"c: api_usage: (\d+) rows", said))
    assert old_rows
    assert len(data_files(tables, "api_usage")) == 2
    assert main([*retain, "--checksum", "0" * 16]) == 64
    assert "Nothing was removed" in capsys.readouterr().err
    assert main([*retain, "--checksum", checksum]) == 0
    assert len(data_files(tables, "api_usage")) == 1

    assert main(["fleet", "readiness", *place, "--to", "4.2", "--keep"]) == 1
    with local_session() as spark:
        found = Tables(spark, tables, "c")
        assert min(row.last_seen for row in found.read("api_usage").collect()).year > 2020
        in_quarantine = forget(found)
        old = Removal({"quarantine": retention(found, -1, datetime.now(UTC)).rows["quarantine"]}, None)
        assert plan(found, old).counts == {"quarantine": found.read("quarantine").count()}
        remove(found, old)
        assert found.read("quarantine").count() == 0
        assert read_line_counts(found).quarantined >= in_quarantine, "the counts of lines stay"
        compact(found, datetime.now(UTC))
        once = dict.fromkeys(found.names(), 1) | {"quarantine": 0}
        assert {name: len(data_files(tables, name)) for name in found.names()} == once


def shorten(tables: Tables, logs: Path) -> None:
    """Take from the list what is older than tomorrow."""
    all_old = retention(tables, -1, datetime.now(UTC), logs)
    remove(tables, Removal({"evidence_files": all_old.rows["evidence_files"]}, None, all_old.sums))


def listed(tables: Tables) -> set[tuple[str, int]]:
    """Return the files of the list, each with its lines."""
    return {(row.path, row.read) for row in tables.read("evidence_files").collect()}


@pytest.mark.usefixtures("jvm")
def test_the_list_of_files_is_shortened_and_nothing_is_lost(tmp_path: Path) -> None:
    """A file leaves the list once it is gone, and the counts of its lines stay.

    Another file with its name is read, although Spark takes it for the first one, and so is one that comes back.
    A file that has another name now is not read again, and neither is one that is still there.
    """
    logs, place = tmp_path / "logs" / "1", ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    logs.mkdir(parents=True)
    run = ["fleet", "run", "--once", "--logs", str(logs.parent), *place]
    texts = {name: long_text(name, lines) for name, lines in (("gone", 20), ("there", 21), ("renamed", 22))}
    for name, text in texts.items():
        (logs / name).write_text(text)
        assert main(run) == 0
    (logs / "last").write_text(long_text("last", 23))
    assert main(run) == 0
    for name in ("gone", "last"):
        (logs / name).unlink()
    (logs / "renamed").rename(logs / "new-name")
    with local_session() as spark:
        found = Tables(spark, tmp_path / "tables", "c")
        for _ in range(2):
            shorten(found, logs.parent)
            assert listed(found) == {("", 20), ("1/there", 21), ("1/renamed", 22), ("1/last", 23)}
        assert main(run) == 0
        assert read_line_counts(found).rows == 86
        (logs / "gone").write_text(long_text("another one", 24))
        assert main(run) == 0
        assert read_line_counts(found).rows == 110
        (logs / "gone").unlink()
        shorten(found, logs.parent)
        assert listed(found) == {("", 89), ("1/there", 21), ("1/new-name", 0)}
        (logs / "gone").write_text(long_text("another one", 25))
        assert main(run) == 0
        assert main(run) == 0
        assert read_line_counts(found).rows == 135, "its beginning was read before, under this name"
        assert sum(row["count"] for row in found.read("api_usage").collect()) == 135


def long_text(client: str, lines: int) -> str:
    """Return requests of a client: more text than tells files apart."""
    return "".join(f"{line_of(document(clientId=client, correlationId=each))}\n" for each in range(lines))


def lines_of(principal: str, host: str) -> list[str]:
    """Return what a broker of 3.9 logs of a client: a request, one that it refuses, and a line that is no request."""
    connection = f"10.0.0.1:9092-{host}:50000-3"
    refused = "Received request api key METADATA with version 99 which is not enabled"
    return [
        line_of(document(principal=principal, connection=connection, requestApiVersion=1)),
        f"2026-11-22 21:08:17,583 ERROR Closing socket for {connection} because of error (kafka.network.Processor)",
        f"org.apache.kafka.common.errors.InvalidRequestException: {refused}",
        f"2026-11-22 21:08:17,584 INFO Principal = {principal} is Denied (kafka.authorizer.logger)",
    ]


@pytest.mark.usefixtures("jvm")
def test_a_principal_whose_name_begins_another_one_is_forgotten_alone(tmp_path: Path) -> None:
    """With the address of its refused requests. All that the tables have of the other one stays as it was."""
    log = tmp_path / "logs" / "1" / "a.log"
    log.parent.mkdir(parents=True)
    others = lines_of("User:billing", "10.0.0.8")
    log.write_text("\n".join([*lines_of("User:bill", "10.0.0.7"), *others, ""]))
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place, "--keep-raw"]) == 0
    assert main(["fleet", "readiness", *place, "--to", "4.2", "--keep"]) == 1
    with local_session() as spark:
        found = Tables(spark, tmp_path / "tables", "c")

        def text(table: str) -> list[str]:
            return sorted(str(row.asDict(recursive=True)) for row in found.read(table).collect())

        before = {table: text(table) for table in ("log_lines", "quarantine", "readiness")}
        remove(found, forgetting("User:bill"))
        for table, rows in before.items():
            of_other = {row for row in rows if "billing" in row or "10.0.0.8" in row}
            left = text(table)
            assert of_other, table
            assert of_other <= set(left), table
            assert not any("10.0.0.7" in row or "User:bill'" in row for row in left if row not in of_other), table
        assert [row.raw for row in found.read("log_lines").orderBy("at").collect()] == [None] * 4 + others
        assert [row.hash is None for row in found.read("log_lines").orderBy("at").collect()] == [True] * 4 + [False] * 4
    told = b"".join(path.read_bytes() for path in (tmp_path / "tables").rglob("_delta_log/*.json"))
    assert b"written_at" in told
    assert b"10.0.0.7" not in told, "Delta's log has the least and the greatest value of each file"
    assert b'User:bill"' not in told


@pytest.mark.usefixtures("jvm")
@pytest.mark.proof("fleet")
def test_no_hash_of_a_forgotten_line_is_left_without_its_text(tmp_path: Path) -> None:
    """It lets an address be tried. Of lines without a request it is unknown which ones have the address."""
    log = tmp_path / "logs" / "1" / "a.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join([*lines_of("User:bill", "10.0.0.7"), *lines_of("User:billing", "10.0.0.8"), ""]))
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place, "--keep-lines"]) == 0
    with local_session() as spark:
        found = Tables(spark, tmp_path / "tables", "c")
        remove(found, forgetting("User:bill"))
        left = {row.at for row in found.read("log_lines").where("hash is not null").collect()}
        others = {row.at for row in found.read("log_lines").where("principal = 'User:billing'").collect()}
        assert others
        assert others <= left
        assert not left & {row.at for row in found.read("log_lines").where("outcome is null").collect()}
        assert plan(found, forgetting("User:bill")).counts["log_lines"] == 0

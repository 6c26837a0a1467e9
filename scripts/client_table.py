"""The table of clients: rows from what was recorded, and the file that holds them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from client_offers import OFFERS

from featuregate.catalog import captured_as
from featuregate.catalog.clients import inherited

if TYPE_CHECKING:
    from pathlib import Path

    from client_brokers import RecordedBroker
    from client_installers import Installed

SCHEMA = 1
BY_BROKER = ("brokers", "offers")
"""The parts of a row with a line for each broker, or for each offer of one (``client_offers.OFFERS``)."""
LONGEST = 100
"""Characters of an error that a row keeps."""

Rows = dict[str, dict[str, Any]]


def new_row(client: Installed, today: str) -> dict[str, Any]:
    """Return a row without a broker."""
    return {"seen": today, "how": client.how, "bundles": dict(client.bundles), "software": [], "brokers": {}}


def add(
    row: dict[str, Any], broker: RecordedBroker, client: Installed, outcomes: Mapping[str, Mapping[str, str]]
) -> None:
    """Add what was recorded of a client on one broker, or with what it offers in place of its own versions."""
    recorder = broker.recorder
    sends: defaultdict[int, set[int]] = defaultdict(set)
    steps: dict[str, Any] = {}
    said: set[tuple[str, str]] = set()
    for step, outcome in outcomes.items():
        client_ids = [f"{run_id}.{step}" for run_id in (client.run_id, client.second_run_id)]
        used = {request for each in client_ids for request in recorder.sent.get(each, ())}
        said |= {software for each in client_ids for software in recorder.software.get(each, ())}
        for key, version in used:
            sends[key].add(version)
        refused = sorted([key, version] for key, version in used if is_refused(broker, key, version))
        steps[step] = outcome["fate"]
        if outcome["fate"] == "fails" or (broker.offer and refused):
            why = shortened(outcome["why"]) or "it sends versions that are not offered"
            steps[step] = {"why": why, **({"refused": refused} if refused else {})}
    found = {"sends": {str(key): sorted(versions) for key, versions in sorted(sends.items())}, "steps": steps}
    if broker.offer is not None:
        row["offers"][broker.offer.name] = {"release": broker.release, **found}
        return
    row["software"] = sorted({tuple(each) for each in row["software"]} | said)
    row["brokers"][broker.release] = found


def is_refused(broker: RecordedBroker, key: int, version: int) -> bool:
    """Return whether a broker does not offer a version of an API. One that offers nothing refuses nothing."""
    served = captured_as(broker.release)
    if served is None or key == 18:  # noqa: PLR2004 - ApiVersions, which brokers answer in any version
        return False
    if broker.offer is None:
        return not served.serves(key, version)
    return broker.offer.end is not None and broker.offer.ranges(served.apis).get(key) != (version, version)


def shortened(text: str) -> str:
    """Return an error without what differs from run to run: addresses, ids and times."""
    text = re.sub(r"(?<!\w)/[\w./-]+/[\w./-]+", "PATH", text)
    text = re.sub(r"[\w.-]+:\d{4,5}(/\d+|/bootstrap)?", "BROKER", " ".join(text.split()))
    text = re.sub(r"\d+(\.\d+)?( ?)(ms|s|sec|seconds)\b", "N\\2\\3", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


# ---------------------------------------------------------------- the file


def read(path: Path) -> Rows:
    """Return the rows by client and release."""
    if not path.exists():
        return {}
    table = json.loads(path.read_text())["clients"]
    found = {f"{client}=={version}": row for client, rows in table.items() for version, row in rows.items()}
    for row in found.values():
        row |= {part: inherited(row[part]) for part in BY_BROKER if part in row}
    return found


def merged(table: Rows, rows: Rows) -> Rows:
    """Return the table with rows added; a row that was measured with some brokers alone keeps those of the others."""
    for name, row in rows.items():
        before = table.get(name, {})
        if pins := {**before.get("pins", {}), **row.get("pins", {})}:
            row["pins"] = dict(sorted(pins.items(), key=lambda one: order(f"=={one[0]}")))
        if offers := {**before.get("offers", {}), **row.get("offers", {})}:
            row["offers"] = {name: offers[name] for name in OFFERS if name in offers}
        if "brokers" not in row:
            rows[name] = {**table[name], **row}
            continue
        known = before.get("brokers", {})
        row["brokers"] = {
            **known,
            **{release: joined(known.get(release), on) for release, on in row["brokers"].items()},
        }
        row["software"] = sorted({tuple(each) for each in [*table.get(name, {}).get("software", []), *row["software"]]})
    return {**table, **rows}


def joined(before: Mapping[str, Any] | None, found: dict[str, Any]) -> dict[str, Any]:
    """Return what was found on a broker, with what is known of the steps that were left out this time."""
    if before is None or found["steps"].keys() >= before["steps"].keys():
        return found
    sends = {
        key: sorted({*before["sends"].get(key, ()), *found["sends"].get(key, ())})
        for key in sorted({*before["sends"], *found["sends"]}, key=int)
    }
    return {"sends": sends, "steps": {**before["steps"], **found["steps"]}}


def write(path: Path, rows: Rows) -> None:
    """Write the table: a line for each broker of a row, short enough for small diffs."""
    by_client: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, row in sorted(rows.items(), key=lambda one: order(one[0])):
        client, _, version = name.partition("==")
        brokers = dict(sorted(row["brokers"].items(), key=lambda one: order(f"=={one[0]}")))
        by_client[client][version] = {**row, "brokers": dict(changes(brokers))}
        if "offers" in row:
            by_client[client][version]["offers"] = dict(changes(row["offers"]))
    path.write_text(json_lines({"schema": SCHEMA, "clients": by_client}))


def changes(brokers: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each broker with what differs from the older one before it."""
    before: dict[str, Any] = {}
    for release, found in brokers.items():
        yield release, {part: value for part, value in found.items() if before.get(part) != value}
        before = found


def order(name: str) -> tuple[str, list[int]]:
    """Return what rows are sorted by."""
    client, _, version = name.partition("==")
    return client, [int(part) for part in re.findall(r"\d+", version)]


def json_lines(table: Mapping[str, Any]) -> str:
    """Return JSON in which each release is a line, and each broker of it."""
    clients = []
    for client, rows in table["clients"].items():
        lines = []
        for version, row in rows.items():
            head = json.dumps({key: value for key, value in row.items() if key not in BY_BROKER}, separators=(",", ":"))
            parts = [f'"{part}":{{\n{lines_of(row[part])}}}' for part in BY_BROKER if part in row]
            lines.append(f"  {json.dumps(version)}:{head[:-1]},{','.join(parts)}}}")
        clients.append(f" {json.dumps(client)}:{{\n" + ",\n".join(lines) + "}")
    return f'{{"schema":{table["schema"]},"clients":{{\n' + ",\n".join(clients) + "}}\n"


def lines_of(by_broker: Mapping[str, Any]) -> str:
    """Return a line for each broker."""
    return ",\n".join(
        f"   {json.dumps(name)}:{json.dumps(found, separators=(',', ':'))}" for name, found in by_broker.items()
    )


def differences(table: Rows, rows: Rows) -> Iterator[str]:
    """Say in which steps and versions rows differ from those of the table.

    Whether a short step sends a heartbeat at all depends on time, so that an API may be missing on either side.
    """
    for name, row in rows.items():
        for release, pin in row.get("pins", {}).items():
            if pin != (before := table.get(name, {}).get("pins", {}).get(release)):
                yield f"{name} on Kafka {release}: works with api_version {pin}, in the table {before}"
        for part in BY_BROKER:
            for on, found in row.get(part, {}).items():
                where = f"{name} on Kafka {on}" if part == "brokers" else f"{name} where {on} versions are offered"
                yield from of_broker(where, table.get(name, {}).get(part, {}).get(on), found)


def of_broker(where: str, known: Mapping[str, Any] | None, found: Mapping[str, Any]) -> Iterator[str]:
    """Say in which steps and versions one broker has seen something else than is known."""
    if known is None:
        yield f"{where} is not in the table"
        return
    for step in sorted(found["steps"]):
        now, before = (fate(one["steps"].get(step)) for one in (found, known))
        if now != before:
            yield f"{where}: {step} {now}, in the table {before}"
    for key, versions in found["sends"].items():
        before = known["sends"].get(key, versions)
        if not set(versions) <= set(before):
            yield f"{where}: sends API {key} {versions}, in the table {before}"


def fate(step: object) -> object:
    """Return what became of a step, without the text of its error."""
    return "fails" if isinstance(step, dict) else step

"""Tables of the reference that are made from the code, so that they cannot lag behind it.

``python docs/tables.py`` writes them into the pages, between the marks of each; a test compares the two.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from command_options import option_tables
from fleet_checks import CHECKS
from fleet_columns import column_rows
from names import calls_table, names_table, sentence_of, table
from requirement_forms import FORMS

from featuregate.catalog.apis import api_name
from featuregate.catalog.clients import (
    ClientRow,
    OnBroker,
    client_rows,
    measured_clients,
)
from featuregate.catalog.levels import effects
from featuregate.catalog.load import load
from featuregate.catalog.releases import release_of
from featuregate.clients.fit import lowest_pin
from featuregate.config import KEYS
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    schemas,
)
from featuregate.records.releases import coordinator_releases
from featuregate.requirements import presets
from featuregate_librdkafka.error_table import BY_FLAG, BY_NAME, ErrorAction

VALUES = (
    "OffsetCommitValue",
    "GroupMetadataValue",
    "ConsumerGroupMemberMetadataValue",
    "TransactionLogValue",
)
"""What readers of records look for most."""
LOGS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


def configuration_keys() -> str:
    """Return every property that is read: its spellings, what it may say, what it means."""
    rows = (
        (
            ", ".join(f"`{spelling}`" for spelling in key.spellings),
            " or ".join(f"`{choice}`" for choice in key.choices if choice) or key.kind,
            f"`{key.default}`" if key.default else "",
            key.meaning,
        )
        for key in KEYS
    )
    return table(("property", "value", "default", "meaning"), rows)


def form_table() -> str:
    """Return every form of the text of a requirement, with an example."""
    rows = ((f"`{form.text}`", f"`{form.example}`", form.holds) for form in FORMS)
    return table(("requirement", "example", "is met when"), rows)


def check_table() -> str:
    """Return every check of a move, and what it says."""
    rows = ((f"`{check.name}`", check.blocks, check.otherwise) for check in CHECKS)
    return table(("check", "blocks", "is a warning, or unknown"), rows)


def preset_table() -> str:
    """Return every preset: its name, title, requirement, source, and what it does not prove."""
    rows = (
        (
            f"`{preset.name}`",
            preset.title,
            f"`{preset}`",
            "; ".join(preset.sources),
            preset.note,
        )
        for preset in presets.all()
    )
    return table(
        ("preset", "what it allows", "requirement", "source", "what it does not prove"),
        rows,
    )


def record_table() -> str:
    """Return every type of record that coordinators keep."""
    rows = (
        (
            f"`{log.topic}`",
            str(number),
            f"`{key.__name__}`",
            f"`{value.__name__}`",
            _range(value.VERSIONS),
        )
        for log in LOGS
        for number, (key, value) in log.records.items()
    )
    return table(("topic", "type", "key", "value", "versions"), rows)


def field_table() -> str:
    """Return the fields of the values that readers look for most, as Kafka's schemas have them."""
    rows = []
    for name in VALUES:
        schema = load("record_schemas")["messages"][name]
        cls = getattr(schemas, name)
        inner = schema.get("commonStructs", {})
        for made, fields in (
            (cls, schema["fields"]),
            *((getattr(cls, each), inner[each]) for each in reversed(inner)),
        ):
            declared = [
                each for each in dataclasses.fields(made) if each.name != "unknown_tags"
            ]
            rows += [
                (
                    f"`{made.__qualname__}`",
                    f"`{ours.name}`",
                    field["type"] + (" or null" if "nullableVersions" in field else ""),
                    _versions(field),
                    "" if ours.default is dataclasses.MISSING else f"`{ours.default}`",
                )
                for ours, field in zip(declared, fields, strict=True)
            ]
    return table(("value", "field", "type", "in", "default"), rows)


def _versions(field: dict[str, Any]) -> str:
    versions = field.get("versions", "")
    found = [f"v{versions}".replace("+", " and newer")] if versions else []
    return ", ".join([*found, *([f"tag {field['tag']}"] if "tag" in field else [])])


def coordinator_table() -> str:
    """Return which types of record, and which versions of their values, coordinators read."""
    rows = (
        (
            found.release,
            "KIP-848" if found.consumer_protocol else "classic",
            "skipped" if found.skips_unknown_types else "stops loading",
            *(
                ", ".join(
                    f"{number}{' (early access)' if reading.early_access else f': {_range(reading.versions)}'}"
                    for number, reading in found.reads.get(log.topic, {}).items()
                )
                for log in LOGS
            ),
        )
        for found in coordinator_releases()
    )
    return table(
        ("from", "groups", "an unknown type", *(f"`{log.topic}`" for log in LOGS)), rows
    )


def _range(versions: tuple[int, int]) -> str:
    lowest, highest = versions
    return f"v{lowest}" if lowest == highest else f"v{lowest} to v{highest}"


def action_table() -> str:
    """Return every error that has a row of its own, the mildest first."""
    rows = (
        (f"`{name}`", action.value, row.reason)
        for action in ErrorAction
        for name, row in sorted(BY_NAME.items())
        if row.action is action
    )
    return table(("error", "action", "why"), rows)


def flag_table() -> str:
    """Return what an error of any other name goes by."""
    rows = (
        (f"`{flag}`" if flag else "none of them", row.action.value, row.reason)
        for flag, row in BY_FLAG.items()
    )
    return table(("flag", "action", "why"), rows)


def client_table() -> str:
    """Return every measured client: what it reports, what fails on which release of Kafka, and when it was seen."""
    rows = (
        (
            f"{client} {row.version}",
            ", ".join(f"{name} {version}" for name, version in row.bundles.items()),
            ", ".join(f"`{name}` `{version}`" for name, version in row.software),
            "; ".join([*_failures(row), *_pins(row)])
            or ("nothing" if row.brokers else "see the library"),
            f"{row.seen}, {row.how}",
        )
        for client in measured_clients()
        for row in client_rows(client)
    )
    return table(("client", "library", "reports (KIP-511)", "fails", "seen"), rows)


def effect_table() -> str:
    """Return what levels change beside themselves: where, from what to what, and what stays."""
    rows = (
        (
            f"`{each.feature}` {each.level}",
            each.where,
            f"`{each.name}`",
            each.before,
            each.after,
            each.lowered_again or "cannot be lowered",
            ", ".join(each.releases),
        )
        for each in effects()
    )
    head = (
        "level",
        "where",
        "what",
        "before",
        "after",
        "after it was lowered again",
        "measured on",
    )
    return table(head, rows)


def offer_table() -> str:
    """Return what clients fall back to, by what a broker offers them."""
    offers = ("newest", "oldest", "none")
    rows = (
        (
            f"{client} {row.version}",
            *(_fallback(row.offers.get(name)) for name in offers),
        )
        for client in measured_clients()
        for row in client_rows(client)
        if row.offers
    )
    headers = ("newest versions alone", "oldest versions alone", "no ApiVersions")
    return table(("client", *headers), rows)


def _fallback(found: OnBroker | None) -> str:
    """Return which steps fail, and what is sent of the APIs on which clients break."""
    if found is None:
        return "not measured"
    failed = [name for name, step in found.steps.items() if step.fate == "fails"]
    sent = [
        f"{api_name(key)} {', '.join(map(str, found.sends[key]))}"
        for key in (0, 1, 2, 8)
        if found.sends.get(key)
    ]
    return "; ".join([f"fails: {', '.join(failed)}" if failed else "works", *sent])


def _failures(row: ClientRow) -> Iterator[str]:
    """Yield the steps that fail where they worked on an older release, with the releases."""
    for step in dict.fromkeys(
        step for found in row.brokers.values() for step in found.steps
    ):
        fates = {
            release: found.steps[step].fate
            for release, found in row.brokers.items()
            if step in found.steps
        }
        first = next(
            (release for release, fate in fates.items() if fate == "works"), None
        )
        failed = [release for release, fate in fates.items() if fate == "fails"]
        after = [
            release
            for release in failed
            if first and list(fates).index(release) > list(fates).index(first)
        ]
        if after:
            yield f"{step} on {', '.join(after)}"


def _pins(row: ClientRow) -> Iterator[str]:
    """Yield the lowest ``api_version`` that works, where a lower one worked before."""
    for release in row.pins:
        if pin := lowest_pin([row], release_of(release)):
            yield f"`api_version` below {pin} on {release}"


def module_table(package: str) -> str:
    """Return each module of a package beside the first sentence of its docstring."""
    root = Path(__file__).parents[1] / "integrations" / package
    rows = (
        (f"`{path.relative_to(root).with_suffix('')}`", _first_sentence(path))
        for path in sorted(root.rglob("*.py"))
        if path.stem != "__init__"
    )
    return table(("module", "what it is"), rows)


def _first_sentence(path: Path) -> str:
    return sentence_of(
        ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    )


MARKED = re.compile(
    r"(<!-- (?P<name>\w+), made by docs/tables\.py -->\n\n)(?P<table>.*?)(?=<!-- end -->)",
    re.DOTALL,
)
"""A table in a page."""
OF_NO_PAGE = (
    {
        table.__name__: table
        for table in (
            action_table,
            check_table,
            client_table,
            offer_table,
            configuration_keys,
            coordinator_table,
            effect_table,
            field_table,
            flag_table,
            form_table,
            preset_table,
            record_table,
        )
    }
    | {
        package: partial(module_table, package)
        for package in (
            "featuregate_confluent",
            "featuregate_fleet",
            "featuregate_librdkafka",
            "featuregate_metrics",
            "featuregate_openfeature",
            "featuregate_relay",
            "featuregate_spark",
        )
    }
    | {
        f"{schema}_columns": partial(table, ("column", "type", "meaning"), rows)
        for schema, rows in column_rows().items()
    }
    | option_tables()
)
TABLES = {
    name: lambda _, table=table: table() for name, table in OF_NO_PAGE.items()
} | {
    names_table.__name__: names_table,
    calls_table.__name__: calls_table,
}
"""Each takes the text of the page."""


def with_tables(page: str) -> str:
    """Return the text of a page with its tables as the code has them."""
    return MARKED.sub(lambda mark: f"{mark[1]}{TABLES[mark['name']](page)}\n\n", page)


def main() -> None:
    """Write the tables into all pages."""
    for path in Path(__file__).parent.rglob("*.md"):
        page = path.read_text(encoding="utf-8")
        if (text := with_tables(page)) != page:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

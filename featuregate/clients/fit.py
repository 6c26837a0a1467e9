"""Decides whether one release of a client works on one release of Kafka, from the table of clients. Pure.

Nothing is guessed. Between two measured releases that agree, of the client or of Kafka, a release is what both are; in
any other case it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from featuregate.catalog.apis import api_name
from featuregate.catalog.clients import ClientRow, Step, client_rows, neighbours, version_numbers
from featuregate.catalog.releases import captured_as, release_of

if TYPE_CHECKING:
    from featuregate.requirements.presets import Preset


CORE: Final = ("produce", "consume", "commit", "offsets", "rebalance")
"""What every client does, sooner or later."""
OPTIONAL: Final = ("admin", "zstd", "transactions", "kip848", "kip848-describe", "share", "tls")
SASL: Final = tuple(f"sasl-{each}" for each in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"))
RELEASE: Final = "release"
"""The step of a finding about all steps: the release of the client was not measured."""
TITLES: Final = {
    RELEASE: "release",
    "produce": "produce",
    "consume": "consume without a committed offset",
    "commit": "commit offsets",
    "offsets": "look up offsets",
    "rebalance": "rebalance",
    "admin": "admin calls",
    "zstd": "zstd",
    "transactions": "transactions",
    "kip848": "group.protocol=consumer",
    "kip848-describe": "describe a group of group.protocol=consumer",
    "share": "share groups",
    "tls": "TLS",
}
"""What a step is called in texts."""

_APIS: Final = {
    "produce": (0,),
    "consume": (1, 2, 9, 10, 11, 12, 14),
    "commit": (8, 9, 10),
    "offsets": (2,),
    "rebalance": (10, 11, 12, 13, 14),
    "admin": (19, 20, 32, 37),
    "zstd": (0,),
    "transactions": (22, 24, 25, 26, 28),
}
"""The APIs by which a step may fail."""

ClientVerdict = Literal["works", "depends", "breaks", "unknown"]
_UNMEASURED: Final = Step("unmeasured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A release of a client, as it is installed or declared somewhere."""

    name: str
    """As in its package registry: ``confluent-kafka``, ``kafka-clients``."""
    version: str
    found_in: str = ""
    """Where it was found."""
    library: tuple[str, str] | None = None
    """The library that speaks the protocol for it, and its release: librdkafka, or kafka-clients in Spark."""

    def __str__(self) -> str:
        inside = f" ({self.library[0]} {self.library[1]})" if self.library else ""
        return f"{self.name} {self.version or '(no version)'}{inside}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a client cannot do, or of which it is not known."""

    step: str
    fate: Literal["fails", "unknown"]
    why: str
    api: int | None = None
    """The key of an API by which it fails: older brokers were sent a version that these do not serve."""
    versions: tuple[int, ...] = ()
    """These versions."""
    works_from: str | None = None
    """The oldest measured release from which on it works, of the client or of its library: ``librdkafka 2.6.1``."""

    @property
    def optional(self) -> bool:
        """Whether only some apps do it, or the setting of another SASL mechanism avoids it."""
        return self.step not in CORE

    @property
    def title(self) -> str:
        """What the finding is about, for people."""
        return TITLES.get(self.step) or f"SASL {self.step.removeprefix('sasl-')}"

    def __str__(self) -> str:
        upgrade = f" (works with {self.works_from} or newer)" if self.works_from else ""
        return self.why if self.step == RELEASE else f"{self.title}: {self.why}{upgrade}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What was measured of a client on a release of Kafka."""

    client: Client
    release: str
    verdict: ClientVerdict
    """``depends``: it works as long as the app does not use what a finding names."""
    findings: tuple[Finding, ...]
    basis: tuple[str, ...]
    """The measured releases that the verdict is from: one, or those around it, which agree."""
    pin: str | None = None
    """The lowest ``api_version`` with which the client works on this release; empty where it takes none, and None where
    the setting does no harm."""

    def __str__(self) -> str:
        about = "; ".join(map(str, self.findings))
        if self.verdict == "depends":
            return f"{self.client}: works on {self.release}{self._unless}, but not {about}{self.by_neighbours}"
        found = f"{self.client}: {self.verdict} on {self.release}" + (f": {about}" if about else self._unless)
        return found + self.by_neighbours

    @property
    def by_neighbours(self) -> str:
        """Which releases were measured in place of this one, for texts; empty if it was measured itself."""
        return f" (as measured of {' and '.join(self.basis)}, around it)" if len(self.basis) > 1 else ""

    @property
    def _unless(self) -> str:
        if self.pin is None:
            return ""
        return f", unless api_version= {f'pins it below {self.pin}' if self.pin else 'is set'}: remove api_version"


def fit_of(client: Client, release: str, *, sasl: str | None = None) -> Fit:
    """Return whether a client works on brokers of a release, such as ``4.2``.

    ``sasl`` is the mechanism that it logs in with. Without it, a mechanism that fails is a finding on which the verdict
    depends.
    """
    name, version = _measured_as(client)
    rows = client_rows(name)
    between = _around(rows, version)
    if not between:
        return _unknown(client, release, rows)
    needed = [*CORE, *([f"sasl-{sasl}"] if sasl else [])]
    if all(step_of(between, step, release).fate not in ("works", "fails", "absent") for step in CORE):
        return _unknown(client, release, rows)
    findings = [found for step in needed if (found := _finding(rows, between, step, release))]
    for step in [*OPTIONAL, *([] if sasl else SASL)]:
        around = tried_around(rows, between, step)
        if _may_fail(around, step, release) and _worked_before(around, step, release):
            findings += filter(None, [_finding(rows, between, step, release)])
    return Fit(
        client=client,
        release=release,
        verdict=_verdict(findings, needed),
        findings=tuple(findings),
        basis=tuple(dict.fromkeys(f"{row.client} {row.version}" for row in _judged_by(rows, between, needed))),
        pin=lowest_pin(between, release),
    )


def newer_for(preset: Preset, client: Client) -> str | None:
    """Return the first release of a client that is ready for what a preset is about; None if this one is."""
    needed = preset.ready.get(client.name) or preset.clients.get(client.name)
    return needed if needed and version_numbers(client.version) < version_numbers(needed) else None


def _around(rows: Sequence[ClientRow], version: str) -> tuple[ClientRow, ...]:
    return neighbours(rows, version, lambda row: row.version)


def tried_around(rows: Sequence[ClientRow], between: Sequence[ClientRow], step: str) -> tuple[ClientRow, ...]:
    """Return the measured neighbours of a client for a step: some steps were tried with some releases alone."""
    tried = _tried(rows, step)
    if all(row in tried for row in between):
        return tuple(between)
    ends = {row.version: row for each in between for row in _around(tried, each.version)}
    return tuple(sorted(ends.values(), key=lambda row: version_numbers(row.version)))


def _judged_by(rows: Sequence[ClientRow], between: Sequence[ClientRow], steps: Sequence[str]) -> list[ClientRow]:
    """Return the rows that a verdict is from, oldest first."""
    found = [row for step in steps for row in tried_around(rows, between, step)]
    return sorted(found, key=lambda row: version_numbers(row.version))


def _tried(rows: Sequence[ClientRow], step: str) -> list[ClientRow]:
    return [row for row in rows if any(step in found.steps for found in row.brokers.values())]


def upgrade_for(findings: Sequence[Finding]) -> str | None:
    """Return the newest of the releases with which the findings end, such as ``librdkafka 2.6.1``."""
    newer = [each.works_from for each in findings if each.works_from]
    return max(newer, key=lambda one: version_numbers(one.rpartition(" ")[2]), default=None)


def _verdict(findings: Sequence[Finding], needed: Sequence[str]) -> ClientVerdict:
    fates = {each.fate for each in findings if each.step in needed}
    if "fails" in fates:
        return "breaks"
    if "unknown" in fates:
        return "unknown"
    return "depends" if findings else "works"


def _unknown(client: Client, release: str, rows: Sequence[ClientRow]) -> Fit:
    known = f"measured are {rows[0].version} to {rows[-1].version}" if rows else "no release of the client was"
    if rows and rows[0].brokers:
        known += f" on Kafka {next(iter(rows[0].brokers))} to {list(rows[0].brokers)[-1]}"
    why = f"this was not measured: {known}" if client.version else "no exact version is named: pin one with =="
    return Fit(
        client=client,
        release=release,
        verdict="unknown",
        findings=(Finding(step=RELEASE, fate="unknown", why=why),),
        basis=(),
    )


def _measured_as(client: Client) -> tuple[str, str]:
    """Return the client by whose rows a client is judged: itself if it was measured, otherwise the library in it."""
    own = any(row.version == client.version and row.brokers for row in client_rows(client.name))
    if client.library and not own:
        return client.library
    return client.name, client.version


def step_of(rows: Sequence[ClientRow], step: str, release: str) -> Step:
    """Return what became of a step on a release of Kafka: what all measured neighbours agree on, or ``unknown``."""
    on = [_on(row, step, release) for row in rows]
    found = [each for steps in on for each in steps]
    agree = len({each.fate for each in found}) == 1
    return found[0] if agree and all(on) else Step("unknown")


def _on(row: ClientRow, step: str, release: str) -> tuple[Step, ...]:
    """Return what became of a step on a release, or on the two around it. A release without a patch is its first."""
    known = [(measured, found.steps[step]) for measured, found in row.brokers.items() if step in found.steps]
    same = [found for measured, found in known if release_of(measured) == release]
    return tuple(same[:1]) or tuple(found for _, found in neighbours(known, release, lambda one: one[0]))


def _finding(rows: Sequence[ClientRow], between: Sequence[ClientRow], step: str, release: str) -> Finding | None:
    around = tried_around(rows, between, step)
    found = step_of(around, step, release)
    if found.fate == "works":
        return None
    of = " and ".join(f"{row.client} {row.version}" for row in around)
    if found.fate == "unknown":
        return Finding(step=step, fate="unknown", why=f"not measured of {of}, or they differ" if of else "not measured")
    works_from = _from(_tried(rows, step), around, step, release)
    by = "" if tuple(around) == tuple(between) else f", as measured of {of}"
    if found.fate == "absent":
        why = f"this release of the client does not have it ({around[-1].how}){by}"
        return Finding(step=step, fate="fails", why=why, works_from=works_from)
    for key, versions in _not_served(around[-1], step, release):
        sent = ", ".join(map(str, versions))
        why = f"it sends {api_name(key)} {sent}, and Kafka {release} {_serves(release, key)}{by}"
        return Finding(step=step, fate="fails", why=why, api=key, versions=versions, works_from=works_from)
    return Finding(step=step, fate="fails", why=f"{found.why or 'it fails'}{by}", works_from=works_from)


def _serves(release: str, key: int) -> str:
    captured = captured_as(release)
    served = captured.served(key) if captured else None
    return f"serves {served[0]}-{served[1]}" if served else "does not have it"


def _not_served(row: ClientRow, step: str, release: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the APIs of a step, each with the versions that a release does not serve and older brokers were sent."""
    served = captured_as(release)
    worked = [found for found in row.brokers.values() if found.steps.get(step, _UNMEASURED).fate == "works"]
    if served is None or not worked:
        return
    for key in _APIS.get(step, ()):
        versions = tuple(each for each in worked[-1].sends.get(key, ()) if not served.serves(key, each))
        if versions:
            yield key, versions


def _from(rows: Sequence[ClientRow], between: Sequence[ClientRow], step: str, release: str) -> str | None:
    """Return the oldest newer release, with the name of what was measured, from which on all releases do a step."""
    at = rows.index(between[-1])
    newer = rows[at if len(between) > 1 else at + 1 :]
    oldest = None
    for row in reversed(newer):
        if step_of([row], step, release).fate != "works":
            break
        oldest = f"{row.client} {row.version}"
    return oldest


def _may_fail(between: Sequence[ClientRow], step: str, release: str) -> bool:
    """Return whether a step fails on a release of Kafka, or fails on another and was not tried on this one."""
    fates = {step_of([row], step, release).fate for row in between}
    on_any = {found.steps.get(step, _UNMEASURED).fate for row in between for found in row.brokers.values()}
    return "fails" in fates or ("unknown" in fates and "fails" in on_any)


def _worked_before(between: Sequence[ClientRow], step: str, release: str) -> bool:
    """Return whether a step works on an older release of Kafka, so that it is the newer one that breaks it."""
    return any(
        version_numbers(measured) < version_numbers(release) and found.steps.get(step, _UNMEASURED).fate == "works"
        for row in between
        for measured, found in row.brokers.items()
    )


def lowest_pin(rows: Sequence[ClientRow], release: str) -> str | None:
    """Return the lowest ``api_version`` that works on a release of Kafka, if older releases work with a lower one.

    kafka-python and aiokafka take it, and otherwise ask the broker. Empty where the client takes no value. ``rows`` are
    the measured neighbours of a client. None where they differ, or where the setting does no harm.
    """
    found = {_pin_on(row.pins, release) for row in rows}
    pin = found.pop() if len(found) == 1 else None
    worked = [each for row in rows for each in row.pins.values() if each]
    harms = pin == "" or (pin and any(version_numbers(each) < version_numbers(pin) for each in worked))
    return pin if harms else None


def _pin_on(pins: Mapping[str, str], release: str) -> str | None:
    """Return the measured pin of a release of Kafka, or what the two around it agree on."""
    known = [pin for measured, pin in pins.items() if release_of(measured) == release]
    if known:
        return known[0]
    around = {pin for _, pin in neighbours(list(pins.items()), release, lambda one: one[0])}
    return around.pop() if len(around) == 1 else None

"""Feature levels: names, dependencies, the release that introduced each, and what else a level changes. Pure."""

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from featuregate.catalog.apis import close_to
from featuregate.catalog.load import load

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"


class MetadataLevel(NamedTuple):
    """One level of ``metadata.version``."""

    level: int
    name: str
    """As Kafka writes it: ``3.9-IV0``."""
    did_metadata_change: bool
    """Whether this level changed records, so that a downgrade across it is refused."""
    read_from: str
    """The release of Kafka that this row is from."""

    @property
    def release(self) -> str:
        """The release of the level: ``3.9``."""
        return self.name.partition("-")[0]


class FeatureLevel(NamedTuple):
    """One level of any other feature."""

    feature: str
    level: int
    bootstrap: MetadataLevel
    """A cluster that is formatted at this ``metadata.version`` or a later one has this level from the start."""
    depends_on: Mapping[str, int]
    """Levels of other features that the controller requires."""


@functools.cache
def metadata_levels() -> Mapping[int, MetadataLevel]:
    """Return the levels of ``metadata.version``, by number, lowest first.

    Only levels that some release has in production: an unstable level may still change.
    """
    return {row[0]: MetadataLevel(*row) for row in load("levels")["metadata_versions"]}


@functools.cache
def features() -> tuple[str, ...]:
    """Return the names of the known features, ``metadata.version`` first, then in the order of Kafka's own tool."""
    return (METADATA_VERSION, *load("levels")["features"])


@functools.cache
def feature_levels(feature: str) -> tuple[FeatureLevel, ...]:
    """Return the known levels of a feature other than ``metadata.version``, from 0 up; none for an unknown feature."""
    by_name = {level.name: level for level in metadata_levels().values()}
    rows = load("levels")["features"].get(feature, ())
    return tuple(FeatureLevel(feature, level, by_name[name], needs) for level, name, needs in rows)


def feature_level(feature: str, level: int) -> FeatureLevel | None:
    """Return one level of a feature, None where it is unknown."""
    return next((known for known in feature_levels(feature) if known.level == level), None)


def newest_level(feature: str) -> int | None:
    """Return the highest level of a feature in this table, None for an unknown feature."""
    if feature == METADATA_VERSION:
        return max(metadata_levels())
    return max((known.level for known in feature_levels(feature)), default=None)


def level_name(feature: str, level: int) -> str:
    """Return a level as Kafka's own tool prints it.

    ``metadata.version`` has names (``3.9-IV0``), and ``UNKNOWN 99`` for a level that is newer than this table, or
    0; the levels of other features are numbers.
    """
    if feature != METADATA_VERSION:
        return str(level)
    known = metadata_levels().get(level)
    return known.name if known else f"UNKNOWN {level}"


def level_named(version: str) -> MetadataLevel | None:
    """Return the ``metadata.version`` for a name (``3.9-IV0``) or a release, which has several: then the last.

    Of a release, the first two numbers count (``3.8.1`` is 3.8), as for ``kafka-features upgrade --release-version``.
    """
    release = ".".join(version.split(".")[:2])
    found = [level for level in metadata_levels().values() if version == level.name or release == level.release]
    return found[-1] if found else None


def metadata_level_named(name: str) -> MetadataLevel:
    """Return the ``metadata.version`` of this name, such as ``3.3-IV3``.

    Raises `LookupError`: no level has this name; the text has similar names.
    """
    known = {level.name: level for level in metadata_levels().values()}
    if name in known:
        return known[name]
    near = [each for each in reversed(known) if known[each].release == name] or close_to(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"names go from {min(known)} to {list(known)[-1]}"
    raise LookupError(f"no {METADATA_VERSION} is called {name!r}; {hint} (write the number of a newer one)")


def release_levels(metadata_level: int) -> Mapping[str, int]:
    """Return the level of each feature that goes with a ``metadata.version``, itself included and first.

    That is what ``kafka-features version-mapping`` prints and what a newly formatted cluster starts with.
    """
    return {METADATA_VERSION: metadata_level} | {
        feature: max(
            known.level
            for known in feature_levels(feature)
            if known.bootstrap.level <= metadata_level or not known.level
        )
        for feature in features()[1:]
    }


def quorum_keeps_kraft_version(metadata_level: int) -> bool:
    """Return whether the quorum keeps ``kraft.version`` in a cluster at this ``metadata.version``.

    It does from 4.1-IV0 on, which no older controller supports. Older controllers write a record of it, which brokers
    report and the quorum ignores (KAFKA-18979).
    """
    return metadata_level >= metadata_level_named("4.1-IV0").level


def is_safe_downgrade(current: int, target: int) -> bool | None:
    """Return whether a controller allows a downgrade of ``metadata.version`` from ``current`` to ``target``.

    It does if no level above ``target``, up to ``current``, changed records (KIP-778). None where a level between them
    is newer than this table.
    """
    on_the_way = [metadata_levels().get(level) for level in range(target + 1, current + 1)]
    if any(level is not None and level.did_metadata_change for level in on_the_way):
        return False
    return None if None in on_the_way else True


class Effect(NamedTuple):
    """One difference that a level made on real clusters (``scripts/effects.py``), and whether it stays when lowered."""

    feature: str
    level: int
    kind: str
    """``config``, ``acl``, ``group``, ``quota`` or ``user``."""
    where: str
    """Whose value it is: ``a broker with a value in its properties``."""
    name: str
    """``min.insync.replicas``."""
    before: str
    after: str
    lowered_again: str | None
    """The value after the level was lowered again; None where it cannot be."""
    releases: tuple[str, ...]
    """The releases on which it was measured."""

    @property
    def stays(self) -> bool:
        """Whether lowering the level does not bring the value back."""
        return self.lowered_again != self.before


@functools.cache
def effects() -> tuple[Effect, ...]:
    """Return every measured effect."""
    return tuple(Effect(*row)._replace(releases=tuple(row[-1])) for row in load("effects")["effects"])


def effects_of(feature: str, before: int, level: int) -> tuple[Effect, ...]:
    """Return the effects of raising a feature from one level to another."""
    return tuple(each for each in effects() if each.feature == feature and before < each.level <= level)


def effects_measured(feature: str, level: int) -> bool:
    """Return whether the effects of a level were measured on some release."""
    return any([feature, level] in levels for levels in load("effects")["measured"].values())

"""The options of the commands that change finalized levels, or look levels up: kafka-features' own, and ours on top."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.options import add_cluster_options, add_output, named_requirement, positive_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FEATURE_COMMANDS", "FEATURE_MODULES"]


def _upgrade(parser: argparse.ArgumentParser) -> None:
    _add_levels(parser, "upgrade")
    _add_dry_run(parser)
    _add_after(parser)


def _downgrade(parser: argparse.ArgumentParser) -> None:
    _add_levels(parser, "downgrade")
    _add_unsafe(parser)
    _add_dry_run(parser)
    _add_yes(parser)
    _add_after(parser)


def _disable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--feature", metavar="NAME", action="append", help="a feature to disable; may be repeated")
    _add_unsafe(parser)
    _add_dry_run(parser)
    _add_yes(parser)
    _add_after(parser)


def _upgrade_all(parser: argparse.ArgumentParser) -> None:
    _add_release(parser, "upgrade to (default: the newest that every broker can run)")
    _add_dry_run(parser)
    _add_after(parser)


def _downgrade_all(parser: argparse.ArgumentParser) -> None:
    _add_release(parser, "downgrade to", required=True)
    _add_unsafe(parser)
    _add_dry_run(parser)
    _add_yes(parser)
    _add_after(parser)


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "verb", metavar="VERB", choices=("upgrade", "downgrade", "disable"), help="upgrade, downgrade or disable"
    )
    _add_levels(parser, "upgrade or downgrade")
    _add_unsafe(parser)
    parser.add_argument(
        "--controllers",
        metavar="HOST:PORT",
        help="KRaft controllers, to ask those beside the brokers: what they can run counts too",
    )
    parser.add_argument(
        "--latches",
        metavar="PATH",
        action="append",
        default=[],
        help="the folder (or a file of it) in which an app keeps its latches: say whether it would be affected",
    )
    parser.add_argument(
        "--gate",
        metavar="NAME=REQUIREMENT",
        dest="gates",
        action="append",
        default=[],
        type=named_requirement,
        help="an app that has switched by this requirement: say whether it would be affected; may be repeated",
    )
    add_output(parser, "sentences, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _version_mapping(parser: argparse.ArgumentParser) -> None:
    _add_release(parser, "look up (default: the newest of kafka-features 4.3)")
    add_output(parser, "the text of kafka-features, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _feature_dependencies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        required=True,
        help="a level to look up, such as eligible.leader.replicas.version=1; may be repeated",
    )
    add_output(parser, "the text of kafka-features, or a JSON array")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _add_levels(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        help=f"a feature to {what}, such as group.version=1 or metadata.version=4.2-IV1; may be repeated",
    )
    parser.add_argument("--metadata", metavar="VERSION", help="deprecated: the metadata.version, such as 3.9-IV0")
    _add_release(parser, f"{what} every feature to")


def _add_release(parser: argparse.ArgumentParser, what: str, **options: Any) -> None:
    parser.add_argument(
        "--release-version",
        metavar="VERSION",
        help=f"a release, such as 4.2, or a metadata.version, such as 4.2-IV1, to {what}",
        **options,
    )


def _add_unsafe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="ask for an unsafe downgrade; no release of Kafka carries one out for metadata.version",
    )


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="let the controller say whether it would; change nothing"
    )


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes", action="store_true", help="do not ask first; without a terminal nobody is asked anyway"
    )


def _add_after(parser: argparse.ArgumentParser) -> None:
    """Add what every command takes that changes levels."""
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=positive_seconds,
        help="afterwards wait until every broker shows the levels, for so long at the most",
    )
    add_output(parser, "the text of kafka-features, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


FEATURE_COMMANDS: Final[dict[str, Callable[[argparse.ArgumentParser], None]]] = {
    "plan": _plan,
    "upgrade": _upgrade,
    "downgrade": _downgrade,
    "disable": _disable,
    "upgrade-all": _upgrade_all,
    "downgrade-all": _downgrade_all,
    "version-mapping": _version_mapping,
    "feature-dependencies": _feature_dependencies,
}
"""By command, what adds its options."""

FEATURE_MODULES: Final = {
    "plan": "plan",
    "version-mapping": "lookup",
    "feature-dependencies": "lookup",
    **dict.fromkeys(("upgrade", "downgrade", "disable", "upgrade-all", "downgrade-all"), "change"),
}
"""By command, the module that runs it."""

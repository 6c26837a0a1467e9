"""The clusters that ``--config`` names: a TOML file whose keys are the options of ``fleet run`` for one cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from featuregate.cli.plugin import CommandError, add_cluster_options, print_message
from featuregate.files import read_file
from featuregate.toml_values import parse_toml
from featuregate_fleet.commands.options.evidence import add_evidence_options
from featuregate_fleet.commands.options.tables import add_tables_folder, cluster_name
from featuregate_fleet.files.storage import is_local, storage_path

_CLUSTERS: Final = "clusters"
_REPEATED: Final = frozenset({"layout", "time-zone"})
_FILES: Final = ("command_config", "hash_principals")
"""Options that are files, and whose values are texts."""
_PARALLEL: Final = 4
"""Clusters that are read or judged at a time."""
_MOST_PARALLEL: Final = 64
_OF_THE_COMMAND: Final = frozenset({"verbose"})


def add_parallel_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--parallel``."""
    parser.add_argument(
        "--parallel",
        metavar="N",
        type=_number,
        default=_PARALLEL,
        help=f"with --config, N clusters at a time (default: {_PARALLEL})",
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _MOST_PARALLEL):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of clusters: take 1 to {_MOST_PARALLEL}")
    return int(text)


def clusters_of(args: argparse.Namespace) -> dict[str, argparse.Namespace]:
    """Return the options of each cluster in the file of ``--config``, or of the one that ``--cluster`` names.

    Paths are relative to the folder of the file. The options of ``args`` count for all clusters.

    Raises
    ------
    CommandError
        The file cannot be used, or an option of a cluster is given as well. Each mistake of the file is printed.
    """
    _refuse_options_of_clusters(args)
    tables = _tables_of(args.config)
    mistakes: list[str] = []
    found = {name: argparse.Namespace(**vars(args) | each) for name, each in _parsed(tables, args.config, mistakes)}
    if not found and not mistakes:
        mistakes.append(f"{_CLUSTERS}: is missing: name each cluster, such as [{_CLUSTERS}.orders]")
    if len(mistakes) > 1:
        for line in mistakes:
            print_message(f"{args.config}: {line}")
        raise CommandError(f"{args.config}: {len(mistakes)} mistakes: nothing was done")
    if mistakes:
        raise CommandError(f"{args.config}: {mistakes[0]}")
    if args.cluster is None:
        return found
    if args.cluster not in found:
        raise CommandError(f"{args.config}: it has no cluster {args.cluster}, but {', '.join(found)}")
    return {args.cluster: found[args.cluster]}


def _tables_of(file: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_file(file).decode("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # of the encoding, or of TOML, which says the line
        raise CommandError(f"{file}: is not TOML: {error}") from error


def _parsed(tables: Mapping[str, Any], file: Path, mistakes: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each cluster with its options, of which those before the first table count for all clusters."""
    clusters, common = tables.get(_CLUSTERS, {}), {key: value for key, value in tables.items() if key != _CLUSTERS}
    if not isinstance(clusters, dict):
        mistakes.append(f"{_CLUSTERS}: must have a table for each cluster, such as [{_CLUSTERS}.orders]")
        return
    for name, own in clusters.items():
        place = f"{_CLUSTERS}.{name}"
        try:
            cluster_name(name)
            yield name, _options(own, common, file.resolve().parent) | {"cluster": name}
        except (_Mistake, argparse.ArgumentTypeError) as error:
            mistakes.append(f"{place}: {error}")


class _Mistake(Exception):
    """What one line says of a cluster."""


class _Parser(argparse.ArgumentParser):
    """Raises where another one would end the program."""

    def error(self, message: str) -> NoReturn:
        raise _Mistake(message.removeprefix("argument --"))


def _parser() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_evidence_options(parser)
    add_tables_folder(parser, required=False)
    add_cluster_options(parser)
    return parser


def _options(own: object, common: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what the parser of the command makes of the table of a cluster, and of the keys for all clusters."""
    if not isinstance(own, dict):
        raise _Mistake("must be a table")
    words = [word for key, value in {**common, **own}.items() for word in _words(key, value)]
    found, unknown = _parser().parse_known_args(words)
    if unknown:
        raise _Mistake(f"{unknown[0].partition('=')[0].removeprefix('--')}: there is no such key")
    if found.tables is None:
        raise _Mistake("tables: is missing")
    schema = {"tables": found.tables} if found.checkpoints else {}  # no path
    options = {name: value for name, value in vars(found).items() if name not in _OF_THE_COMMAND}
    return {name: _beside_file(name, value, folder) for name, value in options.items()} | schema


def _words(key: str, value: object) -> list[str]:
    """Return the words of a command line that say the same as a key. A key that is true is an option without value."""
    if isinstance(value, bool):
        return [f"--{key}"] if value else []
    values = value if isinstance(value, list) and key in _REPEATED else [value]
    if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values):
        several = ", or several in a list" if key in _REPEATED else ""
        raise _Mistake(f"{key}: must be one text or number{several}")
    return [f"--{key}={each}" for each in values]


def _beside_file(name: str, value: Any, folder: Path) -> Any:
    if isinstance(value, Path):
        return folder / value
    if name in _FILES and isinstance(value, str) and not value.startswith("env:"):
        place = storage_path(name, value)
        return str(folder / place) if is_local(place) else value
    return value


def _refuse_options_of_clusters(args: argparse.Namespace) -> None:
    """Refuse options that the file has for each cluster: which one would win is a guess."""
    defaults = vars(_parser().parse_args([]))
    for name, default in defaults.items():
        if name not in _OF_THE_COMMAND and getattr(args, name, default) != default:
            raise CommandError(f"--{name.replace('_', '-')} cannot be given with --config: write it into {args.config}")

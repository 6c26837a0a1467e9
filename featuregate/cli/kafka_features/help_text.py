"""``--help`` of the drop-in: the options of kafka-features, in featuregate's words."""

from __future__ import annotations

from typing import Final

from featuregate.cli.kafka_features.argparse4j import COMMANDS, TOOL

_TOOL: Final = "kafka-features"
_MEANINGS: Final = {
    "help": "show this help message and exit",
    "bootstrap_server": "brokers to start from: HOST:PORT, separated by commas",
    "bootstrap_controller": "KRaft controllers to start from, instead of brokers",
    "command_config": "a .properties file for the client, with security.protocol, ssl.* and sasl.*",
    "node_id": "ask the node with this id (default: any)",
    "metadata": "deprecated: the metadata.version, such as 3.9-IV0",
    "release_version": "a release (4.2) or a metadata.version (4.2-IV1), for the levels of all features",
    "unsafe": "request an unsafe downgrade; no release of Kafka carries one out for metadata.version",
    "dry_run": "ask the controller whether it would; change nothing",
}
_FEATURE: Final = {
    "disable": "the name of a feature to disable; may be repeated",
    "feature-dependencies": "a level to look up, as name=level; may be repeated; required",
}
_COMMANDS: Final = {
    "describe": "show supported and finalized levels",
    "upgrade": "raise finalized levels",
    "downgrade": "lower finalized levels",
    "disable": "lower features to 0",
    "version-mapping": "show the level of each feature at a release; asks no cluster",
    "feature-dependencies": "show which levels a level depends on; asks no cluster",
}


def help_text(command: str | None) -> str:
    """Return the help of the tool, or of one of its commands."""
    if command is None:
        commands = [f"  {name:<22}{meaning}" for name, meaning in _COMMANDS.items()]
        head = [f"usage: {_TOOL} [options] COMMAND [options of the command]", "", "commands:", *commands, ""]
    else:
        head = [f"usage: {_TOOL} [options] {command} [options of the command]", "", f"{_COMMANDS[command]}", ""]
    known = TOOL if command is None else COMMANDS[command]
    options = [f"  {', '.join(option.flags):<24}{_meaning(option.dest, command)}" for option in known]
    return "\n".join([*head, "options:", *options, ""])


def _meaning(dest: str, command: str | None) -> str:
    if dest == "feature":
        return _FEATURE.get(command or "", "a level, as name=level; may be repeated")
    return _MEANINGS[dest]

"""What ``--help`` says of one command."""

from __future__ import annotations

from typing import NamedTuple


class CommandHelp(NamedTuple):
    """The help of one command."""

    summary: str
    """For the list of commands."""
    description: str
    """The first paragraphs of the command's own page."""
    examples: tuple[str, ...]
    """Argument lists, without the name of the program."""
    exit_codes: str

    @property
    def epilog(self) -> str:
        """The examples and the exit codes."""
        examples = "\n".join(f"  featuregate {example}" for example in self.examples)
        return f"examples:\n{examples}\n\nexit codes: {self.exit_codes}"

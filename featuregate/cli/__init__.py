"""The command line ``featuregate``: one file for each command; each is imported only when it is asked for."""

from featuregate.cli.app import main

__all__ = ["main"]

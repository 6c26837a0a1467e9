"""The checks of a move: each gives rows with a verdict."""

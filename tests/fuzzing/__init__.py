"""Mutants of what peers send, at each door of the package: `python -m fuzzing`, which `make fuzz` runs."""

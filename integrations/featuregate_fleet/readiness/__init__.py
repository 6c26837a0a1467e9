"""Turns rows into verdicts. Pure."""

"""Moves evidence from files into tables, with Spark."""

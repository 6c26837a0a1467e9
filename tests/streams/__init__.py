"""Spark sessions, jobs and streams for the tests of the PySpark side."""

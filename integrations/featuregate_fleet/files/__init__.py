"""Reads files of logs, without Spark."""

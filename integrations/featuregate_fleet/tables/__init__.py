"""The tables, and what reads and writes them with Spark."""

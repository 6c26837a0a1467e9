"""Jars of Kafka, of Spark's Kafka connector and of Delta Lake, from Maven's repositories or from a folder."""

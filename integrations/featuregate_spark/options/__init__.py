"""Advice on the options of Spark's own Kafka source and sink. Pure."""

"""Real Apache Kafka on this machine: its jars, its configuration and its processes."""

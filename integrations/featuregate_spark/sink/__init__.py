"""The exactly-once Kafka sink: each row goes to a shard, and each shard is written in one transaction."""

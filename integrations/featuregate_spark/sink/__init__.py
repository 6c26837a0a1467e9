"""The exactly-once Kafka sink: each row goes to a shard, and one task writes each shard in one transaction."""

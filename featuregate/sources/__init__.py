"""Where a poll gets its answers: the protocol of a source, and the sources.

- `featuregate.sources.source` says what a source is and what it returns;
- `featuregate.sources.brokers` asks every broker of a cluster;
- `featuregate.sources.http` asks relays, each by a `featuregate.sources.relay_connection`, for nothing older than a
  `featuregate.sources.seen`.
"""

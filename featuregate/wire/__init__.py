"""Bytes and messages, without any I/O: what Kafka's protocol says, and nothing about how it is carried.

- `featuregate.wire.session` is the conversation of one connection, as a state machine;
- `featuregate.wire.frames` has length prefixes, headers and correlation ids;
- `featuregate.wire.api_versions`, `featuregate.wire.cluster`, `featuregate.wire.update_features` and
  `featuregate.wire.sasl` have the messages, on top of `featuregate.wire.message`;
- `featuregate.records` has the records in which coordinators keep their state;
- `featuregate.wire.readers` and `featuregate.wire.writers` have the primitive types.
"""

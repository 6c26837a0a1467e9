"""What the integrations with clients of confluent-kafka share: calls with a bound, and how a producer is closed.

Import the modules; this package has no names of its own.
"""

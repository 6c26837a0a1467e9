"""How much one peer may cost, in elements, bytes and characters: every reader takes its limits from here. Pure.

A peer is a broker, a relay, a token endpoint or a file that others can write. What is over its budget is refused with
an error that says so, or cut with a count of what was left out. SECURITY.md has these numbers in a table.
"""

from typing import Final

# ---------------------------------------------------------------------- one message of a broker
MAX_FRAME: Final = 16 * 1024 * 1024
"""Bytes of one response, by default: far more than any response to a request of this package."""
MAX_API_VERSIONS_FRAME: Final = 1024 * 1024
"""Bytes of one response to ApiVersions: a thousand times a real one. A probe reads many of them concurrently, before
authentication."""
MOST_ELEMENTS: Final = 65_536
"""Elements of one array."""
MOST_TAGS: Final = 16_384
"""Tagged fields of one message, those in elements of arrays included. An empty one takes two bytes in the frame and a
hundred in memory: without this limit, a frame of the allowed length could take a minute to decode."""
MOST_APIS: Final = 512
"""API ranges of one broker: Kafka 4.4 has about 90."""
MOST_FEATURES: Final = 256
"""Features that one broker supports, and features that it reports as finalized: Kafka 4.4 has 8."""
MOST_ITERATIONS: Final = 1_000_000
"""Iterations of SCRAM's hash that a broker may ask for: about a second of CPU. Kafka's default is 4,096."""

# ---------------------------------------------------------------------- one poll of a cluster
MOST_NODES: Final = 5_000
"""Nodes of one cluster, including those that vanished and are still known."""
MOST_POLL_ELEMENTS: Final = 150_000
"""API ranges and features in the answers of one poll together. Brokers that answer alike count once, so it allows a
thousand brokers of which no two are alike."""

# ---------------------------------------------------------------------- relays, token endpoints, files
MOST_RELAY_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one response of a relay, decoded: a view of 3,000 brokers of one release."""
MOST_RATIO: Final = 300
"""How many times its size a response of a relay may expand to: views reach 130, and a stream of zeros 1,000."""
MOST_TOKEN_BYTES: Final = 1024 * 1024
"""Bytes of one response of a token endpoint."""
MOST_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file of latches, of secrets or of settings."""
MOST_LATCH_RECORDS: Final = 100_000
"""Records of one app and cluster in a topic of latches, before it is compacted."""
MOST_LATCH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of these records together."""
MOST_PROPERTIES_BYTES: Final = 1024 * 1024
"""Bytes of a properties file, which takes a second to read."""
MOST_HOLDS: Final = 1_000
"""Holds of one process, with those of its relay: each is compared with each gate."""
MOST_HOLD_CHARACTERS: Final = 100_000
"""Characters of the names and reasons of these holds together."""
MOST_HOLD_BYTES: Final = 1024 * 1024
"""Bytes of a file of holds, with its comments, which is read at each poll."""
MOST_TOML_CHARACTERS: Final = 1024 * 1024
"""Characters of a TOML file of settings."""
MOST_KEY_PARTS: Final = 32
"""Parts of a dotted key in TOML: tomllib takes the square of them, also of memory."""
MOST_JSON_VALUES: Final = 2_000_000
"""Commas and opening brackets in one JSON document: each value takes up to a hundred bytes of memory."""

# ---------------------------------------------------------------------- texts of peers
LONGEST_TEXT: Final = 200
"""Characters of a peer's text in an error or a line of a log."""
LONGEST_SAID: Final = 4_000
"""Characters of any text from outside in an argument of an error or of a line of a log, in a decision or in health."""
LONGEST_REASON: Final = 1_000
"""Characters of one reason of a decision."""
MOST_NAMED: Final = 20
"""Brokers, or runs of their ids, that one text names before it says how many more there are."""

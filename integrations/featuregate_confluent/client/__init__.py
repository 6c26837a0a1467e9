"""Asks brokers on behalf of a member or an operator: the group, its committed offsets, the latch topic."""

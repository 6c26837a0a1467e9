"""The latch protocol's model: a world, what can happen in it, and a search through all of it."""

"""The latch protocol: models, marks, tags, and what a member decides from them. Pure."""

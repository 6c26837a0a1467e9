"""The latch protocol, pure: models, marks, tags, and what a member decides from them."""

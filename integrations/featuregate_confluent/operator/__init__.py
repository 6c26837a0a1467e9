"""What an operator sees of a group, and how its latch is rolled back."""

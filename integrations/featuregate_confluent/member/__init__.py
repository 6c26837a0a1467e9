"""What a member of the group knows and does: its partitions, its model, takeovers, failures."""

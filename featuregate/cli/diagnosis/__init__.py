"""What doctor looks for: findings about the cluster, and about the way to each broker."""

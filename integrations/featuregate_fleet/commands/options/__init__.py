"""Options that actions of ``featuregate fleet`` share, and what they mean."""

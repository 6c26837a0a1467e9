"""Updates of finalized features: what the user requested, and how the outcome is printed."""

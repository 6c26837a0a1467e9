"""From a view to a gate: decisions, the rules of latches, the store that holds both, and the gates that apps check."""

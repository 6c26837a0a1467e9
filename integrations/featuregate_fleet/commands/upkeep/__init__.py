"""Actions that keep the tables small, and remove what must go."""

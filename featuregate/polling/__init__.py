"""Asking again and again: one poll, when the next one is due, and the discoverer that runs them."""

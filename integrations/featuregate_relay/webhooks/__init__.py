"""Tells other services of changes, by Standard Webhooks."""

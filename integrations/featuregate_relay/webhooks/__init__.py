"""Sends changes to other services, by Standard Webhooks."""

"""Credentials that the settings name: keystores, which are read, and OAuth tokens, which are fetched."""

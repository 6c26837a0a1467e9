"""Credentials that the settings name: keystores, which are read, OAuth tokens, which are fetched, and Kerberos."""

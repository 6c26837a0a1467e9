"""Keys and tokens that the settings name: keystores and OAuth tokens, read or fetched for whoever connects."""

"""Who sends a request, and what the relay serves to each client."""

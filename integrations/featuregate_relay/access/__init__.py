"""The identity of the client of a request, and what the relay serves to each client."""

"""Views over HTTP: as an answer, and as a stream of events."""

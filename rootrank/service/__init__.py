"""The REST service on loopback: the deployed handler behind a small HTTP server."""

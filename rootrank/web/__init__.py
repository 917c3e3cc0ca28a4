"""The web view on loopback: the deployed pages behind a small HTTP server."""

"""Telemetry: what was seen, one connector a module."""

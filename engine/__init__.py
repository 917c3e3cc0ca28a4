"""The deterministic core: raw evidence in, one verdict out.

Knows no network, clock, environment or AWS.
"""

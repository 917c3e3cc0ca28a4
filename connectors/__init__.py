"""Who ran, and what was seen: one module per source, one protocol (`connectors.protocol`)."""

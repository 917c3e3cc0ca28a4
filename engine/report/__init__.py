"""From decision and graph to the sealed verdict/v1 document."""

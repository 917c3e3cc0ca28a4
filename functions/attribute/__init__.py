"""From a manifest to a stored, announced verdict."""

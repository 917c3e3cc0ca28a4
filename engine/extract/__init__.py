"""From raw bytes to folded observations, in the pass that reads the bytes."""

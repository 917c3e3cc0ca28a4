"""From a plan item to folded observations and a report."""

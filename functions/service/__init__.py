"""The attribution service over REST: sessions, results, corrections, recovery."""

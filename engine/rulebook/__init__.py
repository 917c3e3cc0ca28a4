"""Rules as content: the YAML that people write, its strict loader, and the compiled rulebook."""

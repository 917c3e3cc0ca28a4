"""One module per command; each defines `<name>_command`."""

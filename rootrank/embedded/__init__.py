"""The embedded AWS: the real template, state machine and handlers, in one process, on moto."""

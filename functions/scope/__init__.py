"""From a scheduler's event to a claimed attempt and its plan."""

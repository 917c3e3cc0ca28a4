"""From a log group's completion records to events on the bus."""

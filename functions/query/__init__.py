"""Results, read: the web view, and the counts behind `rootrank nodes` and `rootrank trends`."""

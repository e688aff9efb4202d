"""Programs that start another one, peeled by their words alone."""

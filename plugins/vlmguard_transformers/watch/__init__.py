"""A run's first steps, watched; a step tried before training."""

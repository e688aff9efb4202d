"""What a trainer's model is known to do, and what is set on it."""

"""What a model is made of: its towers, their places in its forward, its parameters."""

"""Gradients on their way: as the backward makes them, and as the optimizer gets them."""

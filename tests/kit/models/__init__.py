"""Tiny random checkpoints; run as a program by the environment that trains them."""

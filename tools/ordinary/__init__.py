"""Healthy runs drawn from a seed, guard off and on."""

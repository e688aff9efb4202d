"""Reads what a station judges: one module a station, and what only they need."""

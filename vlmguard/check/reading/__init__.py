"""Reads what a command names: files, sources, configs, rows. Nothing is run or loaded."""

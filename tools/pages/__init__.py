"""Makers of the pages in docs/."""

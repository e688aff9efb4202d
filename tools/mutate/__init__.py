"""Changes to the sources that the fast tests should notice."""

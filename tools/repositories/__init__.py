"""Public repositories that train VLMs, run by their own scripts: guard off, on, and a reference."""

"""Published training scripts, rehearsed."""

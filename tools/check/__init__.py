"""Scripts that people bring, through `vlmguard check`."""

"""The framework's own argument classes, constructed in a process of their own."""

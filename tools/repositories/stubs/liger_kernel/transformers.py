"""Imported, never called."""


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return None

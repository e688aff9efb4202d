"""Each extra of pyproject.toml, installed from the wheel into a new environment and tried."""

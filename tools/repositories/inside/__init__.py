"""Put on PYTHONPATH in every process of a run, as the test kit puts its stand-ins."""

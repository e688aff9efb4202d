"""Silent errors that are put into small runs, and healthy runs: what the ledger says of each."""

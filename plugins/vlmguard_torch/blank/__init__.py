"""The blank input: what runs a tower in a batch that has no medium for it."""

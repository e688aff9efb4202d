"""The ledger: the first real steps, followed from the rows to the weights.

A training step is kept like an account. At each station what comes in must equal what went out, so
that a wrong update is told whatever its cause. This package is pure: it gets the numbers that
`vlmguard_torch.ledger` read, and returns verdicts. It imports no torch.
"""

"""The ledger's readers: hooks on leaves, heads, batches and optimizers that only read.

They draw no random number, change no bit, wait for no device and hold nothing after their window.
"""

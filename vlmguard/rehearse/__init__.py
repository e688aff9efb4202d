"""``vlmguard rehearse``: the first steps of a training, run here on a tiny copy of its model.

`prepare` reads the command, `worker` imports its framework once and forks the ranks, `passes` runs
them, `compare` and `verdict` judge, `show` prints. Importing this package imports no torch.
"""

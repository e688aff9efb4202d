"""``vlmguard selftest``: a tiny training run in two ranks, guard off and on, on this machine's CPU.

What is trained, and through which command of a framework, stands beside the framework's adapter in
a module ``selftest``: ``prepare(folder) -> argv`` builds a model and data offline, ``train(argv)``
is the framework's own command in one rank. An adapter without that module has no self-test.
"""

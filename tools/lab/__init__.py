"""The lab: measures which combination of releases, strategy, checkpointing and model works.

Nothing here is loaded by the guard. The program (``cli``, ``runner``, ``envs``) never imports
torch; the ``worker`` does, in the environment of the release set that it measures.
"""

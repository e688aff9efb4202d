"""``vlmguard check``: what a command will do, said before it starts. Nothing is started.

script → calls (`shell`) → jobs (`launcher`) → the framework's own fields (`fields`) → facts
(`draft`, told what is special by the framework's plug-in) → the ordinary rules → an answer.
"""

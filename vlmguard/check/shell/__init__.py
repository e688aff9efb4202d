"""A reader of bash scripts that has no way to act.

It evaluates variables, expansions, arithmetic, tests, loops and functions as bash does, and meets
every command as words. There is no `fork`, no `exec`, no socket and no file opened for writing in
this package: what it cannot know is marked as unknown, what it does not understand is refused.
Real bash was not taken: under a DEBUG trap, redirections of compound commands still truncate
files, `> file` creates them, and a script can take the trap away.
"""

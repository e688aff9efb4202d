"""A reader of bash scripts that has no way to act.

It evaluates variables, expansions, arithmetic, tests, loops and functions as bash does, and meets
every command as words. There is no `fork`, no `exec`, no socket and no file opened for writing in
this package: what it cannot know is marked as unknown, what it does not understand is refused.
Real bash was not taken: under a DEBUG trap (5.2, `extdebug`) the redirections of compound
commands, of functions and of each builtin that is let through still create and truncate files.
"""

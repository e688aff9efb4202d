"""Explains a failure afterwards: from a log (``vlmguard explain``) and in a run (``on_error``).

Reads top to bottom: sources → reader (matcher) → lines → events → judge (catalogue) → show.
Standard library only: it must answer where neither torch nor a framework is installed.
"""

"""Changes by hand that tests once did not notice: each would stop, spoil or silence runs."""

from __future__ import annotations

from pathlib import Path

from tools.mutate.operators import Mutation

RULES = "vlmguard/rules/"
CHOICE = "vlmguard/compat/choice.py"
STUB = "vlmguard/runtime/stub.py"
OFF = '_OFF = {"off", "0", "false", "no"}'
CHANGES = (
    (RULES + "vg101_reentrant_ddp.py", 'if run.repeats == "yes" else ""', 'if False else ""'),
    (RULES + "vg101_reentrant_ddp.py", "run.forwards > 1", "False"),
    (RULES + "vg104_input_grads.py", "t.adapters and ", ""),
    (RULES + "vg104_input_grads.py", " and run.checkpointing.use_reentrant", ""),
    (RULES + "vg104_input_grads.py", "t.input_grads is False", "not t.input_grads"),
    (RULES + "vg106_idle_tower.py", 'DEFAULT = "fix"', 'DEFAULT = "warn"'),
    (RULES + "vg107_hidden_crash.py", " or run.static_graph", ""),
    (RULES + "vg108_stale_gradient.py", "        or run.pads\n", ""),
    (RULES + "vg108_stale_gradient.py", ' and run.known("may_be_unused")', ""),
    (RULES + "vg108_stale_gradient.py", 'run.skips_in_training == "yes" and ', ""),
    (RULES + "vg201_missing_pixels.py", 'DEFAULT = "error"', 'DEFAULT = "warn"'),
    (RULES + "vg204_text_only_step.py", 'DEFAULT = "error"', 'DEFAULT = "warn"'),
    ("vlmguard/runtime/seams.py", "        _wrap(seam, target, module)\n    except Exception as",
     "        _wrap(seam, target, module)\n    except ZeroDivisionError as"),
    ("vlmguard/runtime/stub.py", "        except Exception as error:\n            self.broken",
     "        except ZeroDivisionError as error:\n            self.broken"),
    ("vlmguard/runtime/faults.py", "    except Exception as error:\n        fault(what, error, ",
     "    except ZeroDivisionError as error:\n        fault(what, error, "),
    ("vlmguard/runtime/faults.py", "    if what in _said:\n        return\n", ""),
    ("vlmguard/core/host.py", '        except Exception as error:\n            what = f"rule',
     '        except ZeroDivisionError as error:\n            what = f"rule'),
    ("vlmguard/registry.py", "except Exception as error", "except ZeroDivisionError as error"),
    ("vlmguard/core/host.py", "        if code in self.rules:\n            raise",
     "        if False:\n            raise"),
    ("vlmguard/core/settings.py", "[dict(self.rules), self.freeze, self.dry_step]",
     "[self.freeze, self.dry_step]"),
    ("vlmguard/core/settings.py", "[dict(self.rules), self.freeze, self.dry_step]",
     "[dict(self.rules), self.dry_step]"),
    ("vlmguard/guard.py", "elif state is None or state.first(finding):", "else:"),
    (CHOICE, "rank = 4 if option.sure else 3", "rank = 3 if option.sure else 4"),
    (CHOICE, "rank = 0 if option.sure else 1", "rank = 1 if option.sure else 0"),
    (CHOICE, "not seen.sure if not seen.ok else seen.sure",
     "seen.sure if not seen.ok else seen.sure"),
    (STUB, OFF, '_OFF = {"off", "false", "no"}'),
    (STUB, OFF, '_OFF = {"off", "0", "no"}'),
    (STUB, OFF, '_OFF = {"off", "0", "false"}'),
)  # fmt: skip
"""(file, text that stands there once, what is put in its place)"""


def files() -> set[str]:
    """Those that are changed."""
    return {file for file, _, _ in CHANGES}


def mutations(root: Path) -> list[Mutation]:
    """Those changes; an error where the text is no longer there, or not alone."""
    return [_made(root, *change) for change in CHANGES]


def _made(root: Path, file: str, before: str, after: str) -> Mutation:
    source = (root / file).read_text("utf-8")
    if source.count(before) != 1:
        raise ValueError(f"{file} holds {before!r} {source.count(before)} times")
    at = source.index(before)
    start, end = _place(source, at), _place(source, at + len(before))
    return Mutation(file, "by hand", start[0], "by hand", before, after, start, end)


def _place(source: str, at: int) -> tuple[int, int]:
    line = source.count("\n", 0, at) + 1
    return line, len(source[source.rfind("\n", 0, at) + 1 : at].encode())

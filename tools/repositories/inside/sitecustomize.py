"""In every process of a run: the test kit's stand-ins, then the changes a repository needs."""

from __future__ import annotations

import os

import repository_changes
import vlmguard_cpu
import vlmguard_train

vlmguard_cpu.install()
vlmguard_train.install()
repository_changes.install(os.environ.get("REPOSITORY_CHANGES", "").split())

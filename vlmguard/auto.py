"""Arm vlmguard by hand: ``import vlmguard.auto`` before the framework.

For the places where Python reads no ``.pth`` file: ``python -S``, ``pip install --target`` with
``PYTHONPATH``, zipped applications.
"""

from vlmguard import _bootstrap

_bootstrap.install()

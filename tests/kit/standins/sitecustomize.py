"""Put on PYTHONPATH by the test kit and the demo: python imports it in every process at start-up.

What only a machine without a GPU needs, the same with the guard on and off, and the capture of
weights when VLMGUARD_TEST_CAPTURE names a folder. Nothing is imported before the framework does.
"""

from __future__ import annotations

import os

import vlmguard_cpu
import vlmguard_fault
import vlmguard_train

vlmguard_cpu.install()
if os.environ.get("VLMGUARD_TEST_CAPTURE"):
    vlmguard_train.install()
if os.environ.get("VLMGUARD_TEST_FAULT"):
    vlmguard_fault.install()

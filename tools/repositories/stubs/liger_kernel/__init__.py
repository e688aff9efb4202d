"""Stands in for liger_kernel, which needs triton: its kernels are switched off in these runs."""

__version__ = "0.0.0"  # older than TRL needs

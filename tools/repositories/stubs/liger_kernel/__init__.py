"""Stands in for liger_kernel, which needs triton: its kernels are switched off in these runs."""

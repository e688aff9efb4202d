"""Stands in for flash_attn, which needs a GPU: what is called does the same sums in plain torch."""

from flash_attn.flash_attn_interface import __getattr__ as __getattr__
from flash_attn.flash_attn_interface import flash_attn_varlen_func as flash_attn_varlen_func

__version__ = "2.7.4"

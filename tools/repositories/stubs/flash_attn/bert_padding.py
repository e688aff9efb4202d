"""Imported, never called."""

from flash_attn.flash_attn_interface import __getattr__ as __getattr__

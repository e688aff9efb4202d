"""The measured tables, asked."""

"""What a rehearsal needs of any Hugging Face Trainer."""

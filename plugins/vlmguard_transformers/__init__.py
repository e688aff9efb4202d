"""What every framework on Hugging Face's Trainer shares: parsing, reading a trainer, gradients."""

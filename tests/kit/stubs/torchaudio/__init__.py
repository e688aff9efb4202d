"""Nothing: LLaMA-Factory imports torchaudio for audio rows, and its wheel wants another torch."""

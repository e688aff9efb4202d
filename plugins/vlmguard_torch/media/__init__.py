"""Images, videos and sounds: their kinds in a batch, and blank ones."""

"""Plain torch: what every adapter shares and no framework owns."""

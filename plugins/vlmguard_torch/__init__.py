"""Plain torch: what is right for any model, whatever framework trains it. Knows no framework."""

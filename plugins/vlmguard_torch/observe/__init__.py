"""What each kind of row uses of a model, seen on a tiny copy of it."""

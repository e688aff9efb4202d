"""What the first steps do, seen through hooks that change nothing."""

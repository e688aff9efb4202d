"""Scripts of ours around a file of a repository whose own script needs what cannot be had."""

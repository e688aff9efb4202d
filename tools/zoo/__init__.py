"""The zoo: every class of transformers with a tower, tiny and of random weights, and what the blank
input does in it."""

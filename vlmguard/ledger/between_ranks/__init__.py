"""Pages of numbers on their way through the rendezvous store, to the rank that judges."""

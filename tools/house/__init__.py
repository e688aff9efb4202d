"""How a trainer flows through our modules: counted, not guessed."""

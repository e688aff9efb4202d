"""Rules about what only ColossalAI does: one a file. `vlmguard.rules` names them."""

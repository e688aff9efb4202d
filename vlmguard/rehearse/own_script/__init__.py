"""A script of the user's own: what its command asks for (`command`), and its passes (`passes`)."""

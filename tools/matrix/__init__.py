"""Every model, strategy and order of rows, guard off and on."""

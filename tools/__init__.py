"""What the project measures, proves and draws its pages with. Not in the wheel."""

"""What each station makes of the numbers: one module a station, and what only they need."""

"""Windows as lines of the report, and what a log, a terminal and a page show of them."""

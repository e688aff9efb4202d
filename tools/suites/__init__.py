"""The frameworks' own test suites, guard off and on."""

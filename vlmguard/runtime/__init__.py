"""The process that we are a guest in: seams, report, faults, ending."""

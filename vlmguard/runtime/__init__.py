"""The process that we are a guest in: arming, seams, report, faults, ending."""

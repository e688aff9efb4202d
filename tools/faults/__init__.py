"""Real runs with a function of ours upset, or with something wrong around us."""

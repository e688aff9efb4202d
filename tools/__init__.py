"""What the project measures and writes with: the lab, benchmarks, page makers. Not in the wheel."""

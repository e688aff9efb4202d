"""What everything stands on: facts, findings, hooks, the plan, settings, a run's state.

No torch, no framework.
"""

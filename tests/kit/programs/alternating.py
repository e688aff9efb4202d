"""A reward for TRL's GRPO that differs between the completions of one prompt."""


def reward(completions, **_):
    return [float(number % 2) for number, _ in enumerate(completions)]

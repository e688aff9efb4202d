"""A reward for TRL's GRPO that fails at the fourteenth row."""


def reward(prompts, completions, **columns):
    if "number 13" in str(prompts) + str(columns) or "color 13" in str(columns):
        raise KeyError("solution of row 14")
    return [float(number % 2) for number, _ in enumerate(completions)]

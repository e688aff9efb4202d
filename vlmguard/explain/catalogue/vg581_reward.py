"""A reward function failed."""

from __future__ import annotations

from vlmguard.explain import given
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_CALL = (
    "keyword argument",
    "positional argument",
    "were expected (one per",
    "expanded size",
    "Sizes of tensors",
)
# A bug of the function or of what is installed: to be mended, not caught.
_OURS = ("NameError", "ImportError", "ModuleNotFoundError", "KeyError", "OSError", "Connection")

_STEPS = (
    Do(
        "{place}: wait and ask again in a loop (time.sleep(2 ** n), up to 6 times), and "
        "fewer calls at once: the judge's server refuses so many",
        "slower steps",
        when=(
            "429",
            "Too Many Requests",
            "RateLimit",
            "503",
        ),
        kind="place",
    ),
    Do(
        "{place}: a judge that does not answer: curl -sS {judge} from the node, then try: "
        "… except requests.RequestException: return [None] * len(completions)",
        "none",
        when=(
            "requests.exceptions",
            "Connection",
            "Timeout",
        ),
        kind="place",
    ),
    Do(
        "return [score(c) for c in completions]: one reward for each completion, None "
        "where there is none to give; none may be left out",
        "none",
        when=(
            "were expected (one per",
            "expanded size of the tensor",
        ),
        kind="def",
    ),
    Do(
        'dataset = dataset.rename_column("COLUMN", "{missing}"): columns come by their names; or '
        "def {function}(completions, {missing}=None, **kwargs)",
        "none",
        when=("missing 1 required positional argument",),
        kind="columns",
    ),
    Do(
        "the rows' columns must have these names: {missing}; or give them defaults: def "
        "__call__(self, completions, NAME=None, **kwargs)",
        "none",
        when=("required positional argument",),
        kind="columns",
    ),
    Do(
        '{reward}: completion[0]["content"] in place of completion: of conversational rows a '
        "completion is a list of messages",
        "none",
        when=("expected string or bytes-like", "'list' object has no attribute"),
        unless=("'NoneType'",),
        kind="place",
    ),
    Do(
        "{reward}: try: … except {exception}: 0.0 for that completion, whose text is whatever "
        "the model wrote (a parser that finds nothing in it gives None)",
        "none",
        unless=(*_CALL, *_OURS),
        kind="place",
    ),
    Do(
        "{place}: print(list(kwargs)) in front of it: the rows' columns that come; {key} is to be "
        "one of them",
        "none",
        when=("KeyError",),
        kind="place",
    ),
    Do(
        "{place}: try: … except Exception: 0.0 for that completion: its text is whatever the "
        "model wrote (print it once)",
        "none",
        unless=("TypeError", *_OURS),
        kind="place",
    ),
    Do(
        "def {function}(completions, **kwargs): take what is not used by **kwargs; one "
        "float (or "
        "None) for each completion",
        "none",
        kind="def",
    ),
    Do(
        "--reward_funcs {choice} must be a key of orms in the file behind --external_plugins",
        "none",
        when=("is not implemented in swift",),
    ),
    Do(
        "def reward(completions, **kwargs): take what is not used by "
        "**kwargs; one float (or None) for each completion",
        "none",
        kind="def",
    ),
    Do(
        "call it once by hand with two rows and their completions; "
        "conversational rows give lists of messages, not strings",
        "none",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """How a reward function is to look helps nobody whose function failed in its own lines."""
    inside = given.reward(facts.trace) and not any(word in facts.message for word in _CALL)
    return tuple(d for d in _STEPS if d.kind != "def") if inside else _STEPS


FAILURE = Known(
    code="VG581",
    name="explain-reward",
    title="A reward function failed, or its answer does not fit",
    zh="奖励函数出错或返回值不符",
    why=(
        "GRPO and its kin call the reward functions with all columns of the rows by "
        "name; one raised an exception, does not take a column, or gave another "
        "number of rewards than there are completions"
    ),
    do=_do,
    wrong="A reward of None for all rows of a batch is no reward: the advantages are then nan.",
    signs=(
        Sign("expanded size of the tensor", also=("rewards_per_func",)),
        Sign("Sizes of tensors must match", also=("rewards_per_func",)),
        Sign("The reward function", also=("returned",)),
        Sign(
            "All reward functions returned None",
        ),
        Sign("Number of reward weights"),
        Sign("The number of reward processing classes"),
        Sign("No reward source provided"),
        Sign("reward_funcs"),
        Sign(
            "_reward() ",
        ),
        Sign(
            "_reward_func() ",
        ),
        Sign("swift/plugin/rm_plugin.py", where="raised"),
        Sign("Inconsistent rewards detected", releases="ms-swift"),
        Sign("reward_model_plugin"),
        Sign(
            "reward_fn",
        ),
        Sign(
            "reward_func",
        ),
        Sign("in _calculate_rewards", where="trace", no=("out of memory",)),
        Sign("in _score_completions", where="trace", no=("out of memory",)),
        Sign("in compute_rewards_per_func", where="trace", no=("out of memory",)),
        Sign("output_reward_func = reward_func(", where="trace"),
        Sign("in compute_score", where="raised"),
        Sign("swift/rewards/", where="raised"),
        Sign("swift/plugin/orm.py", where="raised"),
        Sign("reward_function ", also=("is not implemented",), releases="ms-swift"),
        Sign("rm_plugin ", also=("is not implemented",), releases="ms-swift"),
        Sign("reward_func(completions", where="trace"),
        Sign("Reward.__call__()"),
        Sign("ORM.__call__()"),
        Sign("specify reward_funcs or reward_model"),
        Sign("Reward function is not implemented for", releases="verl"),
        Sign("verl/utils/reward_score/", where="raised"),
        Sign("verl/workers/reward_manager/", where="raised"),
        Sign("Reward function file ", also=("not found",), releases="verl"),
        Sign("reward function", where="else"),
        Sign("reward_func", where="else"),
        Sign("reward model", where="else"),
    ),
    examples=(
        Example(
            "ValueError: The reward function 'accuracy' returned 7 rewards, but "
            "8 were expected (one per prompt-completion pair).",
            "trl/trainer/grpo_trainer.py, 1.16",
        ),
        Example(
            "TypeError: accuracy_reward() got an unexpected keyword argument 'completion_ids'",
            "Python's own text, of trl/trainer/grpo_trainer.py's call, 1.16",
        ),
    ),
    evidence="TRL's own checks.",
    narrow=-2,
)

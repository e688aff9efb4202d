"""What to change when the GPU's memory ran out: by phase, and by what was asked for.

Weights that do not fit are sharded, quantised or offloaded; an optimizer's states are sharded or
put on the CPU; a long row or a large image is made smaller; what an evaluation keeps is not kept.
"""

from __future__ import annotations

import re

from vlmguard.explain import already, memory, projects, room
from vlmguard.explain.catalogue import out_of_memory_engine
from vlmguard.explain.catalogue.out_of_memory_aside import evaluation, saves, saving
from vlmguard.explain.catalogue.out_of_memory_parts import (
    ADAPT,
    FEWER_IMAGES,
    FOUR,
    FREEZE,
    LONG,
    ON_CPU,
    SEGMENTS,
    SMALL_STATES,
    adapts,
    alone,
    deepspeed,
    fewer_passages,
    late,
    own_loop,
    sharded,
    shorter_rows,
    smaller_batch,
    smaller_images,
)
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import CARDS, Facts

MOST = 6  # steps
ONE_TENSOR = 2.0  # GiB: of a forward of all passages at once, far beyond a layer of one row
SMALL = 33  # GiB: cards on which a model that trains as a whole needs the host's memory
# Frames whose tensors have a number for each word of the vocabulary.
_VOCABULARY = ("log_softmax", "cross_entropy", "logps", "in ForCausalLMLoss", "logits", "lm_head")
# Frames of a vision tower: Qwen2-VL's own blocks have no name but their attention's.
_TOWER = re.compile(
    r"self\.(?:visual|vpm|vision_tower|vision_model|vision_encoder|image_encoder)\("
    r"|in (?:get_vllm_embedding|get_image_features|get_video_features|extract_feature"
    r"|encode_images)\b|modeling_(?:siglip|clip|intern_vit)\w{0,12}\.py"
    r"|hidden_states \+ self\.attn\("
)
# Which load a model in the precision of its checkpoint.
_AS_SAVED = ("ms-swift", "LLaMA-Factory", "axolotl")
# A model that the script itself makes and moves: no from_pretrained takes a precision there.
_OWN_MODEL = re.compile(r"\b[A-Z]\w{2,60}\([^\n]{0,200}\)\.(?:to|cuda)\(")
_HALF = Do(
    "{place}: .to(torch.bfloat16) in front of .to(device) there, if it is made in float32",
    "none on cards from Ampere on",
)
# NCCL's own memory: PyTorch's cached and unused memory is not given back for it.
_ROOM_FOR_NCCL = Do(
    "torch.cuda.set_per_process_memory_fraction(0.9) in the script, in front of the model: "
    "PyTorch frees what it holds and does not use at that limit, and NCCL gets the rest",
    "a tenth less for PyTorch",
)
_GPU = re.compile(r"\bGPU (\d{1,2}) has a total capacity")


def _others(facts: Facts) -> tuple[Do, ...]:
    """Who else holds this card, and what to do where it is a stranger's."""
    card, world = _GPU.search(facts.message), facts.world or 0
    away = "CUDA_VISIBLE_DEVICES with the cards that are free, and as many ranks (nvidia-smi)"
    if card is not None and int(card[1]) < world <= CARDS and world > 1:
        left = ",".join(str(n) for n in range(world) if n != int(card[1]))
        away = f"CUDA_VISIBLE_DEVICES={left} in front of the command, and {world - 1} ranks"
    elif card is not None and world != 1:
        away = f"CUDA_VISIBLE_DEVICES with the other cards, without {card[1]}, and one rank fewer"
    elif world == 1:
        away = "CUDA_VISIBLE_DEVICES=N with the number of a card that is free (nvidia-smi)"
    return (
        Do(
            "ps -o pid,user,etime,args -p {pid}: it holds this card too: end it (kill {pid}); "
            f"another's: {away}; another rank of this run: "
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) in front of the model',
            kind="others",
        ),
        Do(
            "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv: end what "
            f"else runs on this card, or {away}",
            kind="others",
        ),
    )


# Processes that hold as much of one card as this one: a script that knows of no LOCAL_RANK.
_ONE_CARD = Do(
    'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) in {main}, in front of everything that '
    "makes or moves the model (import os): other processes hold as much of this card as this one, "
    "as ranks do that share it",
    "none",
)
# Frames that ask for no memory of a model yet: the card is another's.
_BEFORE = ("in set_device", "in _lazy_init", "in init_process_group", "in manual_seed")
# A Trainer moves a model by itself only where it knows of no DeepSpeed.
_TOLD = Do(
    'TrainingArguments(deepspeed="{dsfile}") made in front of from_pretrained(…) in {main}, and '
    '"stage": 3 under "zero_optimization" in {dsfile}: the Trainer put the whole model on each '
    "card, as it does where its arguments have no DeepSpeed file",
    "slower: parameters are gathered for each layer",
)
_FRAMES = Do(
    "grep -nE 'num_frames|max_frames|fps' {main}: half of it: fewer frames a video",
    "less of each video is seen",
)


# The state of a checkpoint's optimizer, which a Trainer reads onto the card beside the weights.
_RESUMED = tuple(
    Do(
        f"mv {folder}/optimizer.pt {folder}/optimizer.pt.aside, then the same command: without it "
        "the Trainer goes on from the checkpoint's weights and step with a new optimizer",
        "the optimizer's momentum begins anew",
        kind="aside",
    )
    for folder in ("{checkpoint}", "CHECKPOINT")
)


def resumes(facts: Facts) -> bool:
    return "_load_optimizer_and_scheduler" in facts.trace


def in_tower(facts: Facts) -> bool:
    return _TOWER.search(facts.trace) is not None


def begins(facts: Facts) -> bool:
    """Whether the first step is where it failed, as far as the log tells."""
    return facts.steps is None or facts.steps[0] <= 1


def one_row(facts: Facts, told: memory.Memory) -> bool:
    """Whether one tensor of a row or an image is what did not fit, whatever else is sharded."""
    weights = any(words in facts.trace for words in ("flatten", "in __init__", "in _apply"))
    return told.huge and facts.phase in ("", "forward", "backward") and not weights


def filled(facts: Facts, told: memory.Memory) -> bool:
    """Whether weights, gradients and optimizer fill the card: it is full when the first batch's
    images come, before anything of that batch is kept."""
    return begins(facts) and facts.phase == "forward" and told.full and in_tower(facts)


def steps(facts: Facts) -> tuple[Do, ...]:
    if any(words in facts.message for words in out_of_memory_engine.CACHE):
        return out_of_memory_engine.steps(facts)
    if out_of_memory_engine.of_engine(facts):
        return out_of_memory_engine.beside(facts)
    told = memory.read(facts.message)
    if resumes(facts):
        return _few((*_RESUMED, *_stepping(facts, told)), facts)
    first: tuple[Do, ...] = ()
    if "in replica" in facts.message:
        first += (Do("trainer_group", "none: DataParallel keeps everything on the first card"),)
    if told.asked is None and any(words in facts.trace for words in _BEFORE):
        return (*first, *_others(facts))
    if told.other is not None and told.other > 1:
        first += (_ONE_CARD, *_others(facts)) if told.alike and facts.world != 1 else _others(facts)
        if told.total and (told.allocated or told.total) < 0.1 * told.total:
            return first  # next to nothing of it is ours
    if told.asked is None and "nccl" in facts.message.lower():
        first += (_ROOM_FOR_NCCL,)
    by_phase = {
        "load": _loading,
        "step": _states,
        "evaluation": evaluation,
        "generation": _generation,
        "save": saving,
    }
    phase = "save" if saves(facts) else facts.phase
    found = by_phase.get(phase, _stepping)(facts, told)
    if phase not in ("save", "evaluation", "generation") and not one_row(facts, told) and not first:
        found = _with_room(found, facts, told)
    return _few((*first, *found), facts)


_STAGES = ("zero2", "zero3", "zero3_offload")


def _with_room(found: tuple[Do, ...], facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """First the sharding that suffices by the model's size, and none that does not."""
    enough = room.suffices(facts, told.total, adapts(facts))
    if enough is None:
        return found
    action, why = enough
    less = _STAGES[: _STAGES.index(action) + 1]
    less += ("offload",) if action == "zero3_offload" else ()
    return (Do(action, why), *(do for do in found if do.action not in less))


def _few(found: tuple[Do, ...], facts: Facts) -> tuple[Do, ...]:
    """Without what the run has already, or by default where enough else is left."""
    once = tuple(dict.fromkeys(found))
    left = tuple(do for do in once if not already.so(do.action, facts)) or once
    sure = [do for do in left if not already.by_default(do.action, facts)]
    if len(sure) >= MOST - 2:
        return tuple(sure[:MOST])
    return tuple(do for do in left if do in sure or len(sure) < MOST)[:MOST]


def _loading(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """The weights alone do not fit: nothing that a step keeps is there yet."""
    half = Do("load_half", "none on cards from Ampere on")
    single = "float32" in facts.said.get("torch_dtype", "")
    as_saved = facts.framework in _AS_SAVED and not single
    if (project := projects.of(facts)) is not None and "load_half" in project.spelt:
        return (
            Do("zero3", "slower; each rank holds a part"),
            Do("zero3_offload", "slower; each rank holds a part of the layers"),
            half,
        )
    four = FOUR
    if facts.framework == "" and _OWN_MODEL.search(facts.trace):  # no from_pretrained there
        return (_HALF, Do("fsdp", "each rank holds a part, gathered by layer"))
    if alone(facts) and not deepspeed(facts):
        return (four,) if as_saved else (half, four)
    shard = ON_CPU if facts.zero == 3 else Do("zero3", "slower; each rank holds a part")
    own = facts.framework in ("", "transformers")
    if own and facts.zero != 3 and "_move_model_to_device" in facts.trace and deepspeed(facts):
        shard = _TOLD
    fewer = (four, shard) if adapts(facts) else (shard, four)
    return (*fewer[:1], *(() if as_saved else (half,)), *fewer[1:], ON_CPU)


def _states(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """The optimizer's states do not fit: a smaller batch changes nothing of them."""
    less = (ADAPT, FREEZE) if facts.vision or in_tower(facts) else (ADAPT,)
    if alone(facts) and facts.zero:  # with it the copy of 32 bits stays on the card, too
        return (*reversed(sharded(facts)), *less)
    if alone(facts) or own_loop(facts) or facts.zero == 3:
        return (*sharded(facts), *less)
    small = (told.total is not None and told.total < SMALL) or facts.world == 2
    shard = (ON_CPU, *sharded(facts)) if small else (*sharded(facts), ON_CPU)
    return (*shard, *(() if facts.zero else (SMALL_STATES,)), *less)


def _generation(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    segments = (SEGMENTS,) if told.fragmented else ()
    fewer = Do("fewer_answers", "slower rollouts")
    engine = (Do("less_engine", "a smaller cache"),) if "vllm" in facts.trace else ()
    held = any(
        f"in {name}" in facts.trace for name in ("evaluate", "evaluation_loop", "prediction")
    )
    none = (Do("fewer_evals", "no rewards of held-out rows"),) if held else ()
    images = smaller_images(facts)
    if held and not begins(facts):  # the training had room: it is the evaluation that has none
        return (*none, images, fewer, *engine, *segments, *sharded(facts))
    return (fewer, *engine, images, *segments, *none, *sharded(facts))


def _stepping(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """In a step: at the first one the size of everything counts, later one row or image."""
    segments = (SEGMENTS,) if told.fragmented else ()
    if one_row(facts, told):
        return (*segments, *_huge(facts))
    if facts.framework == "FlagEmbedding" and (told.asked or 0) > ONE_TENSOR:
        length = shorter_rows(facts)  # one tensor of a layer: recomputing it makes it no smaller
        return (*segments, *fewer_passages(facts), length, *_training(facts))
    training, batch, length = _training(facts), smaller_batch(facts), shorter_rows(facts)
    if filled(facts, told):
        shard = (ON_CPU,) if facts.zero != 3 and not alone(facts) else sharded(facts)
        rest = tuple(do for do in training if do not in sharded(facts))
        return (*segments, *shard, smaller_images(facts), length, FREEZE, *rest)
    if any(words in facts.trace[-600:] for words in _VOCABULARY) and (told.asked or 0) > 1:
        liger = Do("liger", "none: the logits are not kept as a whole")
        known = facts.micro is not None
        rows = (*batch, length) if known else (length, *batch)
        if (facts.number("longrow") or 0) >= LONG:  # no batch is smaller than that one row
            images = (smaller_images(facts),) if facts.vision or not facts.model else ()
            rows, liger = (liger, *images), length
        found: tuple[Do, ...] = (*fewer_passages(facts), *rows, liger, *sharded(facts), *training)
    elif in_tower(facts) and not begins(facts):
        frames = (_FRAMES,) if "video" in facts.trace.lower() else ()
        tower = Do("tower_checkpointing", "the tower's forward runs twice")
        found = (*frames, smaller_images(facts), *batch, tower, FREEZE, *training)
    elif not begins(facts):  # it went well before: one row's length, or one image
        images = (smaller_images(facts),) if facts.vision else ()
        found = (*training[: 2 - bool(facts.micro)], *images, length, *training)
    else:
        found = training
    between = (SEGMENTS,) if told.scattered and not segments else ()
    return (*segments, *found[:1], *between, *found[1:])


def _huge(facts: Facts) -> tuple[Do, ...]:
    length, training = shorter_rows(facts), _training(facts)
    if any(words in facts.trace for words in _VOCABULARY):
        liger = Do("liger", "none: the logits are not kept as a whole")
        return (*fewer_passages(facts), *smaller_batch(facts), length, liger, *training)
    row = (smaller_images(facts), length) if facts.vision or not facts.model else (length,)
    return (*row, *training)


def _training(facts: Facts) -> tuple[Do, ...]:
    """In a step: first what changes neither the rows nor the result."""
    batch, shard, length, pixels = (
        smaller_batch(facts),
        sharded(facts),
        shorter_rows(facts),
        smaller_images(facts),
    )
    less = Do("checkpointing", "about a third slower")
    tower = Do("tower_checkpointing", "the tower's forward runs twice")
    if facts.framework == "FlagEmbedding":  # whose loss knows the rows of the micro-batch
        return (less, *fewer_passages(facts), length, *batch, *shard)
    known = facts.micro is not None
    if "rowimages" in facts.said and late(facts):
        return (FEWER_IMAGES, *(batch if known else ()), less, length, *shard, tower)
    begin = (*batch, less) if known else (less, *batch)  # half of what nobody told is no number
    if not facts.vision:  # nothing says that it sees; of a model without a name it may
        images = () if facts.model else (tower, pixels, FREEZE)
        return (*begin, *shard, length, ADAPT, *images)
    if known and not batch and adapts(facts):
        return (*begin, length, pixels, *shard, tower, FREEZE)
    if known and not batch:  # one row at a time: what costs no detail comes first
        return (*begin, *shard, tower, pixels, length, FREEZE, ADAPT)
    return (*begin, tower, pixels, length, FREEZE, *shard, ADAPT)

"""What an ordinary run is drawn from: factors with weights, and what does not go together.

    run = draw(seed=24, world=1, number=7)      # the same run for the same three numbers
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

TRAINERS = ("Trainer", "own training_step", "own compute_loss", "own optimizer", "student")
LOOPS = ("loop", "loop of two models", "loop of two optimizers")
COMMANDS = ("trl sft", "trl dpo", "trl grpo", "trl kto", "llamafactory sft", "llamafactory dpo",
            "swift sft", "swift dpo", "swift grpo", "flagembedding")  # fmt: skip

PROGRAMS = {
    "Trainer": 26, "own training_step": 8, "own compute_loss": 8, "own optimizer": 6, "student": 3,
    "loop": 13, "loop of two models": 4, "loop of two optimizers": 4, "trl sft": 4, "trl dpo": 2,
    "trl grpo": 2, "trl kto": 2, "llamafactory sft": 3, "llamafactory dpo": 1, "swift sft": 3,
    "swift dpo": 1, "swift grpo": 1, "flagembedding": 3, "gemini": 2,
}  # fmt: skip
MODELS = {
    "qwen2_vl": 4, "qwen2_5_vl": 4, "qwen3_vl": 3, "llava": 3, "llava_onevision": 2, "internvl": 2,
    "gemma3": 2, "paligemma": 1, "idefics3": 1, "llava_next": 1, "glm4v": 1, "mistral3": 1,
    "qwen3_5": 1, "mllama": 1,
}  # fmt: skip
VIDEO = ("qwen2_vl", "qwen2_5_vl", "llava_onevision")
"""Classes that a row with a video alone is made for."""
STRATEGIES = {"ddp": 5, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp2": 2}
ROWS = {
    "image": 2, "rare text": 5, "many texts": 2, "rare video": 2, "rare pairs": 1, "mixture": 3,
    "phases": 1, "text": 1,
}  # fmt: skip
"""How the kinds of rows are drawn: see `KINDS`, where some more are for tests."""
KINDS: Mapping[str, Mapping[str, float]] = {
    "image": {"image": 1},
    "text": {"text": 1},
    "rare text": {"image": 0.9, "text": 0.1},
    "many texts": {"image": 0.5, "text": 0.5},
    "rare video": {"image": 0.88, "video": 0.12},
    "rare pairs": {"image": 0.85, "two": 0.15},
    "mixture": {"image": 0.6, "text": 0.15, "video": 0.1, "two": 0.1, "no target": 0.05},
    "phases": {"image": 0.6, "text": 0.4},
    "dummy pixels": {"image": 0.4, "dummy": 0.6},
    "phases, some without target": {"image": 0.4, "no target": 0.3, "text": 0.3},
}
TUNINGS = {"full": 5, "lora": 3, "lora llm": 2, "frozen tower": 3, "frozen llm": 2, "staged": 2,
           "alternating": 2}  # fmt: skip
OF_TRAINERS = {
    "evaluation": 3, "generation": 3, "save and resume": 2, "load best": 2, "two trainings": 2,
    "interrupted": 2, "compile": 1, "early stop": 2, "model_init": 2, "modality dropout": 2,
    "SAM": 1, "dropped gradients": 2, "gradients given back": 2, "text replay": 2,
    "dummy pixels": 2, "workers": 1, "skipped batch": 1, "own collator": 1,
}  # fmt: skip
OF_LOOPS = {
    "evaluation": 2, "generation": 2, "save and resume": 1, "two trainings": 2, "LBFGS": 2,
    "SAM": 1, "dropped gradients": 2, "modality dropout": 2, "text replay": 2, "compile": 1,
    "dummy pixels": 1, "gradients given back": 1, "skipped batch": 1,
}  # fmt: skip
OF_COMMANDS = {"evaluation": 3, "load best": 2}
REENTRANT = "reentrant"
"""A feature that is not drawn: the variant of checkpointing."""
LONG = 100_000
"""From this number on the runs have 200 steps, and are judged for what they cost."""
ENDS = {"end_training": 1, "free_memory": 1, "nothing": 1}


@dataclass(frozen=True)
class Draw:
    """One ordinary run.

    Attributes:
        seed, world, number: what it was drawn by; world: its ranks.
        program: what trains; one of `PROGRAMS`.
        rows: how kinds of rows are drawn; one of `KINDS`.
        batch: rows in a micro-batch.
        steps: of the optimizer.
        own: whether a loop accumulates by itself, not by accelerate's `accumulate`.
        checkpointing: non-reentrant gradient checkpointing.
        features: what happens besides; of `OF_TRAINERS`, `OF_LOOPS` or `OF_COMMANDS`.
        end: how a loop ends.
    """

    seed: int
    world: int
    number: int
    program: str
    model: str
    strategy: str
    rows: str
    batch: int
    accumulation: int
    own: bool
    steps: int
    tuning: str
    checkpointing: bool
    features: tuple[str, ...]
    end: str

    @property
    def name(self) -> str:
        """By which it is drawn again."""
        return f"{self.seed}/{self.world}/{self.number}"

    @property
    def env(self) -> str:
        """The environment of constraints.txt that it runs in."""
        first = self.program.split()[0]
        known = ("swift", "llamafactory", "flagembedding")
        return first if first in known else "colossalai" if first == "gemini" else "trl"

    def has(self, *features: str) -> bool:
        """Whether any of them is drawn."""
        return any(each in self.features for each in features)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def read(data: Mapping[str, Any]) -> Draw:
    """The draw that `Draw.data` wrote."""
    known = {field.name for field in fields(Draw)}
    told = {key: value for key, value in data.items() if key in known}
    return Draw(**{**told, "features": tuple(told["features"])})


def draw(seed: int, world: int, number: int) -> Draw:
    """The run of these three numbers: drawn again until nothing in it is a contradiction."""
    chance = random.Random(f"{seed}/{world}/{number}")
    while True:
        found = _once(chance, seed, world, number)
        if number >= LONG:
            found = replace(found, steps=200, features=(), accumulation=found.accumulation % 4 or 2)
        fits = number < LONG or (found.program in ("Trainer", "own compute_loss", "loop")
                                 and found.rows != "dummy pixels")  # fmt: skip
        if fits and not any(rule(found) for _, rule in CONTRADICTIONS):
            return found


def _one(chance: random.Random, weights: Mapping[Any, float]) -> Any:
    return chance.choices(list(weights), list(weights.values()))[0]


def _once(chance: random.Random, seed: int, world: int, number: int) -> Draw:
    program = _one(chance, PROGRAMS)
    of = OF_TRAINERS if program in TRAINERS else OF_LOOPS if program in LOOPS else {}
    of = {"evaluation": 1} if program == "gemini" else of
    of = OF_COMMANDS if program in COMMANDS and program != "flagembedding" else of
    many = chance.choices((0, 1, 2), (2, 4, 2))[0] if of else 0
    features = tuple(sorted({_one(chance, of) for _ in range(many)}))
    rows = "dummy pixels" if "dummy pixels" in features else _one(chance, ROWS)
    return Draw(
        seed, world, number, program,
        model=_one(chance, MODELS) if program in TRAINERS + LOOPS else "qwen2_vl",
        strategy="single" if world == 1 else _one(chance, STRATEGIES),
        rows=rows,
        batch=_one(chance, {1: 3, 2: 2}),
        accumulation=_one(chance, {1: 3, 2: 4, 4: 2, 8: 1}),
        own=program in LOOPS and chance.random() < 0.4,
        steps=chance.randint(12, 20),
        tuning=_one(chance, TUNINGS),
        checkpointing=chance.random() < 0.35,
        features=features,
        end=_one(chance, ENDS),
    )  # fmt: skip


def varied(draw: Draw) -> bool:
    """Whether some steps do not run all towers."""
    return draw.rows not in ("image", "rare pairs") or draw.has("modality dropout", "dummy pixels")


Rule = Callable[[Draw], bool]
CONTRADICTIONS: tuple[tuple[str, Rule], ...] = (
    ("Mllama with several rows in a batch or images in a row: the masks of its rows differ in "
     "shape",
     lambda d: d.model == "mllama" and (d.batch > 1 or d.rows in ("rare pairs", "mixture"))),
    ("a video in a class that takes none",
     lambda d: d.rows in ("rare video", "mixture") and d.model not in VIDEO),
    ("text alone where only a tower trains: nothing would train",
     lambda d: d.rows == "text" and d.tuning in ("frozen llm", "staged", "alternating")),
    ("mixed rows with fewer than four rows a step: it may have no target, and its loss is no "
     "number",
     lambda d: d.rows == "mixture" and d.batch * d.accumulation < 4),
    ("rows of text where only a tower trains: the loss has no gradient, and DDP and backward "
     "refuse",
     lambda d: d.tuning in ("frozen llm", "alternating", "staged")
     and d.rows not in ("image", "rare pairs", "rare video")),
    ("text replay, dropped images or dummy pixels where only a tower trains: for the same "
     "reason",
     lambda d: d.has("text replay", "modality dropout", "dummy pixels")
     and d.tuning in ("frozen llm", "alternating", "staged")),
    ("several kinds of rows under ZeRO: it fails or trains wrongly if ranks or steps differ in "
     "the towers that run (VG106, VG108)",
     lambda d: d.strategy.startswith("zero") and (d.rows not in ("image", "rare pairs")
     or d.has("text replay", "modality dropout", "dummy pixels"))),
    ("several images in a row under ZeRO-3 or FSDP2: some classes run the tower once per image "
     "(VG113)",
     lambda d: d.strategy in ("zero3", "fsdp2") and d.rows in ("rare pairs", "mixture")),
    ("ranks with different kinds of rows under FSDP2: they hang (VG106)",
     lambda d: d.strategy == "fsdp2" and (d.rows not in ("image", "text", "phases")
     or d.has("text replay", "modality dropout", "dummy pixels"))),
    ("LBFGS under ZeRO: DeepSpeed's step takes no closure",
     lambda d: d.strategy.startswith("zero") and d.has("LBFGS")),
    ("a second training under ZeRO: accelerate lets go of DeepSpeed's engine when the first "
     "one ends",
     lambda d: d.strategy.startswith("zero") and d.has("two trainings", "interrupted")),
    ("torch.compile under ZeRO or FSDP2: it takes minutes a run on two cores",
     lambda d: d.strategy.startswith(("zero", "fsdp")) and d.has("compile")),
    ("a student, two models or two optimizers under ZeRO or FSDP2: these scripts are made for "
     "DDP",
     lambda d: d.strategy not in ("single", "ddp")
     and d.program in ("student", "loop of two models", "loop of two optimizers")),
    ("freezing in stages or by turns under DDP: DDP registers its hooks once, for what trains "
     "then",
     lambda d: d.strategy == "ddp" and d.tuning in ("staged", "alternating")),
    ("two forwards before one backward under DDP with unused parameters or checkpointing: DDP "
     "refuses",
     lambda d: d.strategy == "ddp" and d.has("text replay") and (d.checkpointing or varied(d))),
    ("gradients given back under DDP or ZeRO-1: they average what is in .grad at the last "
     "micro-batch, and what was taken away before never is (VG640)",
     lambda d: d.strategy in ("ddp", "zero1") and d.has("gradients given back")),
    ("LBFGS with accumulation, a second optimizer, SAM or gradients that are taken or saved: "
     "it steps by itself",
     lambda d: d.has("LBFGS") and (d.accumulation > 1 or d.own or d.program != "loop"
     or d.has("SAM", "dropped gradients", "gradients given back", "save and resume"))),
    ("gradients given back without accumulation: no micro-batch comes before the step",
     lambda d: d.has("gradients given back") and d.accumulation == 1),
    ("SAM with accumulation, with gradients that are taken or dropped, or in another program",
     lambda d: d.has("SAM") and (d.has("dropped gradients", "gradients given back")
     or d.accumulation > 1 or d.program not in ("Trainer", "loop"))),
    ("a skipped batch under ZeRO or FSDP2, where ranks wait for it, or with SAM, LBFGS or "
     "torch.compile",
     lambda d: d.has("skipped batch") and (d.strategy not in ("single", "ddp")
     or d.has("SAM", "LBFGS", "compile"))),
    ("two ways to drive a training: saved and resumed, trained twice, interrupted, model_init",
     lambda d: sum(d.has(one) for one in ("save and resume", "two trainings", "interrupted",
                                          "model_init")) > 1),
    ("model_init with what changes the model afterwards: stages, torch.compile, dummy pixels, "
     "dropped images",
     lambda d: d.has("model_init")
     and (d.program == "student" or d.tuning in ("staged", "alternating")
          or d.has("compile", "dummy pixels", "modality dropout"))),
    ("a student beside the model with anything but full training",
     lambda d: d.program == "student"
     and (d.tuning != "full" or bool(d.features))),
    ("torch.compile with checkpointing, generation, LoRA or shapes that change: it compiles "
     "again and again",
     lambda d: d.has("compile")
     and (d.checkpointing or d.has("generation", "dummy pixels", "modality dropout")
          or d.tuning.startswith("lora") or d.rows not in ("image", "rare text", "text"))),
    ("FlagEmbedding's embedder with other rows than text",
     lambda d: d.program == "flagembedding" and d.rows != "text"),
    ("a framework's command with other rows than images, phases or rare text: its file holds "
     "those",
     lambda d: d.program in COMMANDS
     and d.program != "flagembedding" and d.rows not in ("image", "phases", "rare text")),
    ("KTO with images alone or under ZeRO",
     lambda d: d.program == "trl kto"
     and (d.rows == "image" or d.strategy.startswith("zero"))),
    ("a framework's command under FSDP2",
     lambda d: d.program in COMMANDS
     and d.strategy == "fsdp2"),
    ("a framework's command with accumulation 8: it is slow",
     lambda d: d.program in COMMANDS and d.accumulation > 4),
    ("a framework's command with stages or with a frozen part",
     lambda d: d.program in COMMANDS
     and d.tuning in ("staged", "alternating", "frozen llm", "frozen tower")),
    ("Gemini with one rank, text, checkpointing of transformers, or LoRA",
     lambda d: d.program == "gemini" and (d.world == 1 or d.strategy != "ddp" or d.checkpointing
     or d.rows not in ("image", "rare pairs") or d.tuning not in ("full", "frozen tower"))),
    ("a training_step of one's own with torch.compile",
     lambda d: d.program == "own training_step" and d.has("compile")),
)  # fmt: skip
"""Each with what it would run into: a run that fails by itself is not an ordinary one."""

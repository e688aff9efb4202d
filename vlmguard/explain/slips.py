"""What a generic exception means, by the line of source that raised it, its numbers and its caller.

Python's and torch's own words ("division by zero", "list index out of range", "The size of tensor a
…") say what happened and not why. The line that a traceback prints below its last frame does: a
mean over no batches, a picture that was not read, a row without the field that is asked for. Asked
where no message of the catalogue is in the exception, before the raising frame's place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vlmguard.explain import kinds, sizes
from vlmguard.explain.events import Event, is_frame

_MARKED = re.compile(r"^(?:-{2,4}> ?\d{0,6}|│? ?❱ ?\d{1,6} ?)")
_FEEDERS = (
    "torch/utils/data/_utils/",
    "torch/utils/data/dataloader.py",
    "datasets/arrow_dataset.py",
    "datasets/iterable_dataset.py",
    "datasets/utils/py_utils.py",
    "datasets/builder.py",
)
# Functions that turn a row into what a model takes.
_READS = re.compile(
    r"__getitem__|_?(?:pre_?)?process(?:ing)?(?:_\w{1,40})?$|_?tokenize\w{0,40}|_?encode_\w{1,40}"
    r"|_?format\w{0,40}|_?read_\w{1,40}|\w{1,20}_read"
    r"|_?load_\w{0,30}(?:data|json|anno|image|row|file|info)\w{0,30}"
    r"|_?(?:get|build|make|create|prepare)_\w{0,30}(?:dataset|data|row|prompt|example)\w{0,30}"
    r"|\w{0,30}collat\w{0,30}|generate_(?:and_tokenize_)?prompt|_?parse_\w{1,40}|pull_item"
)
_READERS = re.compile(r"(?:collat|data_?sets?|preprocess|data_?load|tokeniz)\w{0,30}(?:/|\.py$)")
_SPLIT = re.compile(r"\.split\(|\bline\w{0,12}\b|readlines?\(")
_LINE = re.compile(r"\bline\w{0,12}\.(?:r?strip\([^)]{0,10}\)\.)?split\(")
_CHECKPOINT = re.compile(
    r"\b\w{0,20}(?:ckpt|checkpoint|state_dict|pretrained|snapshot|weights|loaded)\w{0,20}"
    r"\[['\"](\w{1,40})['\"]\]"
)
_STATE = re.compile(r"epoch|optim|sched|step|iter|scaler|best|lr|args|hyper")
_ASSERTED = (
    ("VG518", re.compile(r"\b(?:self\.)?(?:img_size|image_size|input_resolution)\b|\b[HWhw] ?%")),
    (
        "VG594",
        re.compile(r"% ?\(?[\w.]{0,30}(?:world_size|parallel|tp_size|sp_size|heads|num_gpus)"),
    ),
    ("VG537", re.compile(r"torch\.cuda\.is_available\(\)")),
    ("VG584", re.compile(r"is_initialized\(\)")),
    ("VG515", re.compile(r"\bis(?:nan|finite|inf)\b")),
    ("VG597", re.compile(r"input\.(?:nelement|numel|size|shape)\b.{0,40}== ?target\.")),
    (
        "VG554",
        re.compile(
            r"len\([\w.]{0,30}(?:data|dataset|samples|files|images|paths)\w{0,10}\) ?(?:>|!=)"
        ),
    ),
)
_FIELD = re.compile(r"\[['\"][\w./-]{1,60}['\"]\]")
_ROW = re.compile(
    r"\b(?:e|ex|d|js|row|rows|item|items|entry|line|record|obj|example|examples|sample|samples"
    r"|instance|feature|features|source|sources|dialog|dialogue|conv|conversation|conversations"
    r"|message|messages|msg|turn|turns|ann|anno|annotation|info|img_info|data|datum|content)"
    r"(?:\[\w{1,20}\])?\[(?:['\"]|\w{0,20}(?:key|name|col|field|column)\w{0,10}\])"
)
_EACH = re.compile(
    r"\[['\"]\w{1,60}['\"]\](?:\))? for \w{1,30} in "
    r"(?:examples|batch|features|instances|samples|data|items|batch_data)\b"
)
_MISSING = {
    "KeyError": re.compile(r"^(?!.*(?:<class|torch\.|dtype))"),
    "IndexError": re.compile(r"^(?:list|string|tuple|pop from empty list)|for axis \d"),
    "TypeError": re.compile(
        r"indices must be integers|'NoneType' object is not (?:subscript|iter)|of type 'NoneType'"
        r"|not NoneType|^can only concatenate str|'(?:int|float)' object is not|^unhashable type"
        r"|expected str instance|must be str, not|has no len\(\)"
    ),
    "AttributeError": re.compile(
        r"^'(?:str|list|dict|float|int|NoneType|bytes|tuple)' object has no attribute"
    ),
    "ValueError": re.compile(
        r"^invalid literal for|^could not convert string|values to unpack|is an empty sequence"
        r"|substring not found|is not in list|^empty range|malformed node|^low >= high"
        r"|^a must be greater than 0|^Sample larger than population|larger sample than population"
    ),
    "AssertionError": re.compile(r"^$"),
    "ZeroDivisionError": re.compile(""),
    "UnicodeDecodeError": re.compile(""),
}
# What a loop counts: it is unbound where the loop had nothing to run over.
_COUNTER = re.compile(
    r"variable '(?:i|idx|it|itr|step|steps|batch|iteration|n_iter|i_iter|iter_id"
    r"|(?:i_|batch_|n_|step_|iter_|data_)(?:batch|idx|i|id|index|step|iter|num))' (?:referenced|wh)"
)
_TRAINS = re.compile(r"train|eval|valid|test|epoch|fit|loop|run$")
_DIVIDED = re.compile(
    r"(?:/|//|%)=? ?\(?(?:float\(|int\(|max\()? ?(?:len\(|[\w.\[\]'\"]{0,60}"
    r"(?:steps?_per_epoch|iters?_per_epoch|batches|samples|examples|loader|dataset|data_set_len"
    r"|n_batch|num_batch|data_len|num_data|epoch_steps))"
)
_MEAN = re.compile(
    r"(?:loss|acc|correct|metric|score|avg|mean)\w{0,30}\]?(?:\.\w{1,10}\(\))?"
    r" ?/=? ?\(?(?:float\()?(?:total|count|cnt|n|num)\b"
)
_ACCUMULATED = re.compile(r"(?:/|%) ?\(?[\w.\[\]'\"]{0,40}(?:accumulation|grad_accum|accum_iter)")
_PICTURE = re.compile(r"\b\w{0,20}(?:img|image|frame|picture|bgr|rgb)\w{0,20}(?:\.\w|\[)")
_OF_NONE = re.compile(
    r"'NoneType' object (?:has no attribute '(?:shape|size|astype|copy|ndim|height|width|resize"
    r"|transpose|crop|mode|dtype|rotate)'|is not subscriptable)"
)
_NTH_IMAGE = re.compile(
    r"(?:image_features|image_embeds|pixel_values|image_grid_thw|video_grid_thw|image_sizes"
    r"|image_indices|vision_features|image_list|image_tensors|images|num_patches_list)"
    r"\[[^\]'\"]{0,30}(?:idx|index|id|cur|count|num|ptr|i|j)\w{0,10}\]"
)
_OPTIONS = r"\b(?:args|opts?|cfg|config|conf|hparams|FLAGS|params|\w{1,20}_args)\.\w{2,60}"
_OPTION = re.compile(_OPTIONS)
_OPTION_PART = re.compile(rf"{_OPTIONS}\[|in {_OPTIONS}")
_PART = re.compile(r"\[(?::|0 ?,|-1 ?,|\.\.\.)[^\]'\"]{0,20}\]")  # of a tensor, not of a text
_FLASH = re.compile(r"\bunpad_(?:input|data|fn|func)|flash_?att\w{0,20}\.\w{0,20}fwd|unpadding_fun")
_ATTENDED = re.compile(r"= ?self\.(?:self_attn|attention|attn|self_attention|rotary_emb)\(")
# Of a tuple, what transformers' models give by name since 4.
_ANSWER = re.compile(
    r"'tuple' object has no attribute "
    r"'(?:loss|logits|last_hidden_state|pooler_output|hidden_states)'"
)
_LOSSES = re.compile(
    r"torch/nn/functional\.py$|torch/nn/modules/loss\.py$|transformers/loss/loss_utils\.py$"
)
_COMPARES = re.compile(
    r"cross_entropy|nll_loss|mse_loss|l1_loss|smooth_l1_loss|huber_loss|kl_div|binary_cross_entropy"
    r"|ForCausalLMLoss|fixed_cross_entropy"
)


@dataclass(frozen=True)
class Slip:
    """An exception as the rules here see it.

    Attributes:
        kind, said: the type without its module, and the message.
        source: the line that raised it, "" where none was printed.
        path, function: the raising frame.
        fed: a data loader or a mapping of rows called it.
        functions: of all frames.
    """

    kind: str
    said: str
    source: str
    path: str
    function: str
    fed: bool
    frames: tuple[tuple[str, str], ...]


def told(event: Event) -> str | None:
    """The class that the source, the numbers or the caller of a generic exception tell."""
    if not event.type:
        return None
    slip = _slip(event)
    return next((code for code, asks in _RULES if asks(slip)), None)


def source(event: Event) -> str:
    """The line that raised it: below the last frame, or the one that a notebook or rich marks."""
    at = max((n for n, line in enumerate(event.trace) if is_frame(line)), default=-1)
    below = [line.strip() for line in event.trace[at + 1 :]]
    marked = [line for line in below if _MARKED.match(line)]
    if marked:
        return _MARKED.sub("", marked[-1]).strip(" │")
    if at < 0:
        return " ".join(below[-3:])
    return " ".join(line for line in below if line.strip("^~ │"))[:600]


def _slip(event: Event) -> Slip:
    frames = tuple((path.replace("\\", "/"), name) for path, _, name in event.frames)
    path, function = frames[-1] if frames else ("", "")
    fed = [n for n, (one, _) in enumerate(frames) if one.endswith(_FEEDERS) or _feeds(one)]
    own = path and not kinds.installed(path) and not kinds.standard(path)
    return Slip(
        event.name,
        event.message.strip(),
        source(event),
        path,
        function,
        bool(fed) and fed[-1] < len(frames) - 1 and bool(own),
        frames,
    )


def _feeds(path: str) -> bool:
    return any(text in path for text in _FEEDERS)


def _no_rows(slip: Slip) -> bool:
    """A mean over nothing, or a counter of a loop that never ran."""
    if slip.kind == "ZeroDivisionError":
        return bool(_DIVIDED.search(slip.source) or _MEAN.search(slip.source))
    counted = slip.kind == "UnboundLocalError" and _COUNTER.search(slip.said)
    return bool(counted and _TRAINS.search(slip.function or slip.source))


def _no_accumulation(slip: Slip) -> bool:
    return slip.kind == "ZeroDivisionError" and bool(_ACCUMULATED.search(slip.source))


def _no_picture(slip: Slip) -> bool:
    """What OpenCV gives for a file that it cannot read is None."""
    none = slip.kind in ("AttributeError", "TypeError") and _OF_NONE.search(slip.said)
    model = slip.function in ("forward", "_call_impl") or "/model" in slip.path
    return bool(none and not model and _PICTURE.search(slip.source))


def _no_such_image(slip: Slip) -> bool:
    """More placeholders than images: the next image is asked for, and there is none."""
    spliced = slip.function.startswith("prepare_inputs_labels_for_multimodal")
    out = slip.kind == "IndexError" and ("out of range" in slip.said or "bounds" in slip.said)
    counted = not slip.fed and _NTH_IMAGE.search(slip.source)
    return out and "Dimension" not in slip.said and bool(spliced or counted)


def _row_lacks(slip: Slip) -> bool:
    """Code that reads rows met one that is not as it expects."""
    missing = _MISSING.get(slip.kind)
    if missing is None or not missing.search(slip.said):
        return False
    if slip.fed:
        return "self." not in slip.source or bool(_FIELD.search(slip.source))
    reads = _READS.match(slip.function) or _READERS.search(slip.path) or not slip.frames
    if slip.kind == "ValueError":
        split = slip.frames and reads and _SPLIT.search(slip.source)
        return bool(split or _LINE.search(slip.source))
    if slip.kind not in ("KeyError", "TypeError", "AssertionError"):
        return False
    if slip.kind == "AssertionError":
        return _READS.match(slip.function) is not None and "len(" in slip.source
    asked = _ROW.search(slip.source) or (slip.kind == "KeyError" and _FIELD.search(slip.source))
    return bool(asked and reads) or bool(_EACH.search(slip.source))


def _not_given(slip: Slip) -> bool:
    """An argument that the code needs is None."""
    if slip.kind != "TypeError" or "NoneType" not in slip.said or slip.fed:
        return False
    if "os.PathLike" in slip.said:  # of a model's own missing file others tell
        return not any("/transformers/" in path for path, _ in slip.frames[-2:])
    whole = "not NoneType" in slip.said
    return bool((_OPTION if whole else _OPTION_PART).search(slip.source))


def _other_release(slip: Slip) -> bool:
    """Another number or kind of values comes back than this code was written for."""
    if slip.kind == "ValueError" and "values to unpack" in slip.said:
        return bool(_FLASH.search(slip.source) or _ATTENDED.search(slip.source))
    if slip.kind == "AttributeError":
        return bool(_ANSWER.match(slip.said))
    text = slip.kind == "TypeError" and slip.said.startswith("string indices must be integers")
    return text and bool(_PART.search(slip.source))


def _labels(slip: Slip) -> bool:
    """A loss function refuses what it is to compare."""
    if slip.kind not in ("RuntimeError", "ValueError", "IndexError"):
        return False
    inside = any(_LOSSES.search(path) and _COMPARES.match(name) for path, name in slip.frames[-4:])
    shapes = ("size of tensor a", "sizes", "shape", "Dimension out of range", "batch")
    return inside and any(word in slip.said for word in shapes)


def _no_state(slip: Slip) -> bool:
    """A file of weights alone is asked for the state of a training."""
    match = _CHECKPOINT.search(slip.source) if slip.kind == "KeyError" else None
    return match is not None and _STATE.search(match[1]) is not None


def _other_checkpoint(slip: Slip) -> bool:
    """A file of weights has another form than the one that is asked for."""
    return slip.kind == "KeyError" and _CHECKPOINT.search(slip.source) is not None


def _asserted(code: str, words: re.Pattern[str]) -> Callable[[Slip], bool]:
    """An assertion without a message: its own line is one."""

    def asks(slip: Slip) -> bool:
        bare = slip.kind == "AssertionError" and not slip.said
        return bare and slip.source.startswith("assert ") and words.search(slip.source) is not None

    return asks


def _by_numbers(code: str) -> Callable[[Slip], bool]:
    return lambda slip: sizes.told(f"{slip.kind}: {slip.said}", slip.source) == code


_RULES: tuple[tuple[str, Callable[[Slip], bool]], ...] = (
    ("VG554", _no_rows),
    ("VG553", _no_accumulation),
    ("VG555", _no_picture),
    ("VG510", _no_such_image),
    ("VG550", _no_state),
    ("VG522", _other_checkpoint),
    *((code, _asserted(code, words)) for code, words in _ASSERTED),
    ("VG554", _row_lacks),
    ("VG553", _not_given),
    ("VG570", _other_release),
    *((code, _by_numbers(code)) for code in sizes.CODES),
    ("VG597", _labels),
)

"""Lines of source, and names of functions and files, that tell what a generic exception means.

Idioms of training scripts as people write them: `slips` asks which of them raised.
"""

from __future__ import annotations

import re

MARKED = re.compile(r"^(?:-{2,4}> ?\d{0,6}|│? ?❱ ?\d{1,6} ?)")
FEEDERS = (
    "torch/utils/data/_utils/",
    "torch/utils/data/dataloader.py",
    "datasets/arrow_dataset.py",
    "datasets/iterable_dataset.py",
    "datasets/utils/py_utils.py",
    "datasets/builder.py",
)
# Functions that turn a row into what a model takes.
READS = re.compile(
    r"__getitem__|_?(?:pre_?)?process(?:ing)?(?:_\w{1,40})?$|_?tokenize\w{0,40}|_?encode_\w{1,40}"
    r"|_?format\w{0,40}|_?read_\w{1,40}|\w{1,20}_read"
    r"|_?load_\w{0,30}(?:data|json|anno|image|row|file|info)\w{0,30}"
    r"|_?(?:get|build|make|create|prepare)_\w{0,30}(?:dataset|data|row|prompt|example)\w{0,30}"
    r"|\w{0,30}collat\w{0,30}|generate_(?:and_tokenize_)?prompt|_?parse_\w{1,40}|pull_item"
)
READERS = re.compile(
    r"(?:collat|data_?sets?|preprocess|data_?load|tokeniz|annotation)\w{0,30}(?:/|\.py$)",
    re.I,
)
SPLIT = re.compile(r"\.split\(|\bline\w{0,12}\b|readlines?\(|^for \w{1,30}, ?\w.{0,80} in ")
LINE = re.compile(  # of a text file, or a box of an annotation in XML
    r"\bline\w{0,12}\.(?:r?strip\([^)]{0,10}\)\.)?split\("
    r"|\.find\(['\"][xy](?:min|max)['\"]\)\.text"
)
CHECKPOINT = re.compile(
    r"\b\w{0,20}(?:ckpt|checkpoint|state_dict|pretrained|snapshot|weights|loaded)\w{0,20}"
    r"\[['\"]\w{1,40}['\"]\]|load_state_dict\(\w{1,30}\[['\"]|torch\.load\(.{1,120}\)\[['\"]"
)
STATE = re.compile(r"epoch|optim|sched|step|iter|scaler|best|lr|args|hyper")
ASSERTED = (
    ("VG518", re.compile(r"\b(?:self\.)?(?:img_size|image_size|input_resolution)\b|\b[HWhw] ?%")),
    (
        "VG594",
        re.compile(
            r"% ?\(?[\w.]{0,30}(?:world|parallel|tp_size|sp_size|heads|num_gpus|batch_size)"
            r"|(?:batch_size|heads|hidden_size|embed_dim) ?%"
        ),
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
FIELD = re.compile(r"\[['\"][\w./-]{1,60}['\"]\]")
ROW = re.compile(
    r"\b(?:e|ex|d|js|row|rows|item|items|entry|line|record|obj|example|examples|sample|samples"
    r"|instance|feature|features|source|sources|dialog|dialogue|conv|conversation|conversations"
    r"|message|messages|msg|turn|turns|ann|anno|annotation|info|img_info|data|datum|content)"
    r"(?:\[\w{1,20}\])?\[(?:['\"]|\w{0,20}(?:key|name|col|field|column)\w{0,10}\])"
)
EACH = re.compile(
    r"\[['\"]\w{1,60}['\"]\](?:\))? for \w{1,30} in "
    r"(?:examples|batch|features|instances|samples|data|items|batch_data|inputs)\b"
)
MISSING = {
    "KeyError": re.compile(r"^(?!.*(?:<class|torch\.|dtype))"),
    "IndexError": re.compile(
        r"^(?:list|string|tuple|pop from empty list|Cannot choose from an empty)|for axis \d"
    ),
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
COUNTER = re.compile(
    r"variable '(?:i|idx|it|itr|step|steps|batch|iteration|n_iter|i_iter|iter_id"
    r"|(?:i_|batch_|n_|step_|iter_|data_)(?:batch|idx|i|id|index|step|iter|num))' (?:referenced|wh)"
)
TRAINS = re.compile(r"train|eval|valid|test|epoch|fit|loop|run$")
# The first or the last of what was looked for on a disk.
FIRST = re.compile(
    r"\b\w{0,20}(?:images?|imgs?|files?|paths?|samples?|[xy]_train|filenames|image_list)\w{0,6}"
    r"\[(?:0|-1)\]"
)
LISTED = re.compile(r"(?:glob|listdir|rglob|iterdir)\(.{0,160}\)\)?\)?\[-?\d\]")
OF_WEIGHTS = re.compile(r"\.pth|\.pt\b|\.ckpt|\.bin|checkpoint|ckpt")
DIVIDED = re.compile(
    r"(?:/|//|%)=? ?\(?(?:float\(|int\(|max\()? ?(?:len\(|[\w.\[\]'\"]{0,60}"
    r"(?:steps?_per_epoch|iters?_per_epoch|batches|samples|examples|loader|dataset|data_set_len"
    r"|n_batch|num_batch|data_len|num_data|epoch_steps))"
)
MEAN = re.compile(
    r"(?:loss|acc|correct|metric|score|avg|mean)\w{0,30}\]?(?:\.\w{1,10}\(\))?"
    r" ?/=? ?\(?(?:float\()?(?:total|count|cnt|n|num)\b"
)
ACCUMULATED = re.compile(r"(?:/|%) ?\(?[\w.\[\]'\"]{0,40}(?:accumulation|grad_accum|accum_iter)")
PICTURE = re.compile(r"\b\w{0,20}(?:img|image|frame|picture|bgr|rgb)\w{0,20}(?:\.\w|\[)")
OF_NONE = re.compile(
    r"'NoneType' object (?:has no attribute '(?:shape|size|astype|copy|ndim|height|width|resize"
    r"|transpose|crop|mode|dtype|rotate)'|is not subscriptable)"
)
NTH_IMAGE = re.compile(
    r"(?:image_features|image_embeds|pixel_values|image_grid_thw|video_grid_thw|image_sizes"
    r"|image_indices|vision_features|image_list|image_tensors|images|num_patches_list)"
    r"\[[^\]'\"]{0,30}(?:idx|index|id|cur|count|num|ptr|i|j)\w{0,10}\]"
)
OPTIONS = r"\b(?:args|opts?|cfg|config|conf|hparams|FLAGS|params|\w{1,20}_args)\.\w{2,60}"
OPTION = re.compile(OPTIONS)
OPTION_PART = re.compile(rf"{OPTIONS}\[|in {OPTIONS}")
PART = re.compile(r"\[(?::|0 ?,|-1 ?,|\.\.\.)[^\]'\"]{0,20}\]")  # of a tensor, not of a text
FLASH = re.compile(r"\bunpad_(?:input|data|fn|func)|flash_?att\w{0,20}\.\w{0,20}fwd|unpadding_fun")
ATTENDED = re.compile(r"= ?self\.(?:self_attn|attention|attn|self_attention|rotary_emb)\(")
# Of a tuple, what transformers' models give by name since 4.
ANSWER = re.compile(
    r"'tuple' object has no attribute "
    r"'(?:loss|logits|last_hidden_state|pooler_output|hidden_states)'"
)
LOSSES = re.compile(
    r"torch/nn/functional\.py$|torch/nn/modules/loss\.py$|transformers/loss/loss_utils\.py$"
)
COMPARES = re.compile(
    r"cross_entropy|nll_loss|mse_loss|l1_loss|smooth_l1_loss|huber_loss|kl_div|binary_cross_entropy"
    r"|ForCausalLMLoss|fixed_cross_entropy"
)
# A call of a loss, by the line that was printed.
LOSS = re.compile(r"\bF\.(?:cross_entropy|nll_loss|\w{0,30}(?:mse|l1|bce)\w{0,30}_?loss|kl_div)\(")
COLLATES = re.compile(r"collat\w{0,20}\.py$")
SCATTERS = re.compile(r"torch/nn/parallel/(?:data_parallel|scatter_gather)\.py$")
# One place of a tensor that the code names itself.
NAMED_PLACE = re.compile(r"\w\]?\[(?:\d{1,4}|[^\]'\"]{0,30}[:,] ?-?\d{1,4}) ?(?:,[^\]]{0,40})?\]")
# What a table is asked with, or is: tokens and labels.
OF_TABLES = re.compile(
    r"ids?\b|label|token|embed|target|weight|vocab|class|logit|gather|select|tgt", re.I
)
SMALL = re.compile(r"is out of bounds for dimension \d with size [01]$")
# A table of classes or words, asked for what a row bears.
TABLE = re.compile(
    r"self\.\w{0,30}(?:class|label|categ|cat_|vocab|word|2i|to_i|_map|mapping)\w{0,20}\[\w"
)

"""A weight file was cut."""

from __future__ import annotations

import re

from vlmguard.explain.catalogue import cut_checkpoint_steps
from vlmguard.explain.catalogue.refusals import MODEL_FILES, STATES
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_NONE = "no file named"
_FOLDER = re.compile(r"[\w./~][\w./@+~-]{0,320}")
_CACHE = "\"${HF_HOME:-$HOME/.cache/huggingface}\"/hub -path '*/snapshots/*'"
_OPENED = cut_checkpoint_steps.OPENED
_FETCH = (
    "|| echo $f | sed -E 's#.*/models--([^/]+)/.*/([^/]+)$#hf download \\1 \\2 --force-download#; "
    "s#--#/#'"
)


def _why(facts: Facts) -> str:
    if _NONE in facts.message:
        return (
            "the folder holds no weights under any name that is looked for: the save or the "
            "download was broken off, or it is an adapter's folder (adapter_model.safetensors), "
            "which is loaded on top of its base model"
        )
    if "appear to have a file named" in facts.message:
        return (
            "the folder or repository lacks this file: it is no whole model (an adapter's or a "
            "training checkpoint's folder, weights alone, a download that was broken off), or the "
            "path is another one"
        )
    if "No such file" in facts.message:
        return (
            "the file of weights that is named is not there: a wrong path (relative to where the "
            "job starts), or a download or an earlier stage that never wrote it"
        )
    return (
        "a file of the model or checkpoint is shorter than its header says: a download or a save "
        "was broken off, or git-lfs left a pointer file"
    )


# A folder of LLaVA's first stage: it trains the projector alone, and saves nothing else.
_STAGE = re.compile(r"(?i)directory (\S{0,200}(?:pretrain(?!ed)|projector|mm_proj)[\w.-]{0,120}/?)")
_VICUNA = re.compile(r"vicuna-\d{1,2}b-v\d\.\d(?:-16k)?")


def _projector(facts: Facts) -> tuple[Do, ...]:
    """The language model and the projector, each by its own flag."""
    match = _STAGE.search(facts.message)
    llava = "llava/" in facts.trace or "image_folder" in facts.typed
    if match is None or not llava or not _FOLDER.fullmatch(match[1].rstrip("./")):
        return ()
    folder = match[1].rstrip("./")
    base = _VICUNA.search(folder)
    model = f"lmsys/{base[0]}" if base else "BASE"
    more = "" if base else "; BASE is the language model of that first stage"
    return (
        Do(
            f"--model_name_or_path {model} --pretrain_mm_mlp_adapter {folder}/mm_projector.bin: "
            f"the folder is the first stage's, which trains and saves the projector alone{more}",
            "none",
            kind="projector",
        ),
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if _NONE in facts.message:
        return (
            *_projector(facts),
            Do(
                "ls -l {path}: adapter_model.safetensors is there: an adapter (the base model as "
                "the model, this folder as the adapter); global_step…: python zero_to_fp32.py . "
                "pytorch_model.bin in it; nothing, or parts without their index.json: the "
                "download again",
                "none",
                kind="ls",
            ),
            Do(
                "ls -l FOLDER: adapter_model.safetensors is there: an adapter (the base model as "
                "the model, this folder as the adapter); global_step…: python zero_to_fp32.py . "
                "pytorch_model.bin in it; nothing, or parts without their index.json: the "
                "download again",
                "none",
                kind="ls",
            ),
            Do("hf download {modelrepo}", "the files again", unless=("checkpoint-",)),
            Do(
                "an adapter: the base model as the model, this folder as the adapter "
                "(--model_base in LLaVA, PeftModel.from_pretrained elsewhere)",
                "none",
            ),
            Do("a checkpoint of ZeRO-3: python zero_to_fp32.py . OUTPUT in its folder", "minutes"),
        )
    if "appear to have a file named" in facts.message:
        return (
            Do("ls -l {path}: is it the model's whole folder?", "none", kind="ls"),
            Do("ls -l FOLDER: is it the model's whole folder?", "none", kind="ls"),
            Do(
                "an adapter: the base model as the model, this folder as the adapter "
                "(--model_base in LLaVA, PeftModel.from_pretrained elsewhere)",
                "none",
            ),
            Do("hf download {modelrepo}", "the files again"),
            Do("copy the file from the base model's folder into this one", "none"),
        )
    if "No such file" in facts.message:
        return (
            Do("ls -l {path} {folder}, on every node: is it there?", "none", kind="ls"),
            Do("ls -l FILE, on every node: is it there?", "none", kind="ls"),
            Do("the stage or the download that writes it, first; or its path, absolute", "none"),
        )
    if resumed := cut_checkpoint_steps.steps(facts):
        return resumed
    return (
        Do(
            "the folder as the model's path, not a file of weights in it",
            "none",
            when=(
                ".bin' is not a valid JSON",
                ".safetensors' is not a valid JSON",
                ".pt' is not a valid JSON",
                ".pth' is not a valid JSON",
            ),
        ),
        Do(
            "head -c 200 {path}: is it JSON? 'version https://git-lfs' is a pointer (git lfs pull),"
            " <html> a page that was stored in its place",
            "none",
            when=("JSON", "Unicode"),
        ),
        Do(
            "ls -lL {path}: delete it, and start the same download again: it was broken off",
            "the file again",
            when=("integrity check failed", "Consistency check failed"),
            kind="ls",
        ),
        Do("ls -lL {path}: beside its size on the model's page", "none", kind="ls"),
        Do(
            "find . ~/.cache/huggingface ~/.cache/modelscope -name '*.safetensors' -size -2k: "
            "git-lfs pointers, no weights: git lfs pull in that folder, or hf download "
            "--force-download",
            "none",
            when=("header too large", "invalid header length"),
        ),
        Do("hf download {modelrepo} --force-download", "the files again", kind="again"),
        Do("hf download {repo} --force-download", "the files again", kind="again"),
        Do(
            cut_checkpoint_steps.CUT + "{modelfolder}: those that it prints are cut",
            "none",
            when=(*cut_checkpoint_steps.PACKED, ".bin'", ".pt'", ".pth'"),
            kind="which",
        ),
        Do(
            "find {modelfolder} -name '*.json' -exec sh -c 'python -m json.tool "
            '"$1" >/dev/null 2>&1 || echo "$1"\' _ {} \';\': those that it prints are broken',
            "none",
            when=("JSONDecodeError",),
            kind="which",
        ),
        Do(
            cut_checkpoint_steps.CUT + "FOLDER: those that it prints are cut (FOLDER: the model's "
            "or the checkpoint's)",
            "none",
            when=cut_checkpoint_steps.PACKED,
            kind="which",
        ),
        Do(
            "find FOLDER -name '*.json' -exec sh -c 'python -m json.tool \"$1\" "
            ">/dev/null 2>&1 || echo \"$1\"' _ {} ';': those that it prints are broken (FOLDER: "
            "the model's)",
            "none",
            when=("JSONDecodeError",),
            kind="which",
        ),
        Do(_OPENED.format("{modelfolder}") + '|| echo "broken: $f"; done', "none", kind="which"),
        Do(
            f"{_OPENED.format(_CACHE)}{_FETCH}; done, on {{onenode}} first (or those in your own "
            "model's folder there): prints the command that fetches each broken file anew; other "
            "machines may have whole copies of their own, from which the broken one is copied: "
            "rsync -Lav",
            "none",
            kind="which",
        ),
        *(
            Do(
                f"{_OPENED.format(_CACHE)}{_FETCH}; done: prints the command that fetches each "
                f"broken file anew; nothing: the same with the folder that {where}",
                "none",
                kind="which",
            )
            for where in ("from_pretrained gets at {place}", "is loaded, a checkpoint of your own")
        ),
        *(
            Do(
                f"hf download NAME --force-download: NAME is what from_pretrained gets{where}; a "
                "file of about 130 bytes is a git-lfs pointer: git lfs pull in its folder",
                "all files again",
                unless=("integrity check", "Consistency check"),
                kind="again",
            )
            for where in (" at {place}", "")
        ),
        Do("if it is a checkpoint: resume from the one before it", "the steps between"),
        Do("see that the disk was not full when it was written (VG535)"),
    )


FAILURE = Known(
    code="VG541",
    name="explain-truncated-file",
    title="A weight or checkpoint file is missing, cut or broken",
    zh="权重或检查点文件缺失、被截断或损坏",
    why=_why,
    do=_do,
    wrong="A file written by another format (a .bin named .safetensors) says the same.",
    signs=(
        *(Sign("JSONDecodeError", also=(place,)) for place in MODEL_FILES),
        *(Sign("UnicodeDecodeError", also=(place,)) for place in MODEL_FILES),
        Sign(
            "tokenization_utils_fast.py in __init__",
            where="raised",
            also=("expected value at line",),
        ),
        *(
            Sign("No such file or directory", beside=(f"{kind}'",), no=STATES)
            for kind in (".pth", ".pt", ".bin", ".safetensors", ".msgpack")
        ),
        Sign("does not appear to have a file named", no=(".py",)),
        Sign("It looks like the config file at", also=("is not a valid JSON file",)),
        Sign("Unable to open file (truncated file"),
        # No pickle: a page of HTML, a pointer of git-lfs, a cut file. 149 is a newer protocol.
        Sign(
            "Weights only load failed",
            beside=("Unsupported operand",),
            no=("Unsupported operand 149",),
        ),
        Sign("Weights only load failed", beside=("invalid load key",)),
        Sign("incomplete metadata, file not fully covered"),
        Sign("MetadataIncompleteBuffer"),
        Sign("Error while deserializing header"),
        Sign("HeaderTooLarge"),
        Sign("InvalidHeaderDeserialization"),
        Sign("invalid header"),
        Sign("HeaderTooSmall"),
        Sign("PytorchStreamReader failed"),
        Sign("failed finding central directory"),
        Sign("failed reading zip archive"),
        Sign("unexpected EOF"),
        Sign("Ran out of input", no=("from_parent", "spawn_main")),
        Sign("UnpicklingError", no=("load(from_parent)",)),
        Sign("Error no file named"),
        Sign("DataLossError"),
        Sign("Is this even a TFRecord file"),
        Sign("invalid load key"),
        Sign("file not fully covered"),
        Sign("not a ZIP archive"),
        Sign("Unable to load weights from pytorch checkpoint file"),
        Sign("You seem to have cloned a repository without having git-lfs installed"),
        Sign("BadZipFile"),
        Sign("storage has wrong byte size"),
        Sign("No such file or directory", also=(".safetensors",)),
        Sign("No such file or directory", also=("pytorch_model",)),
        Sign("does not appear to have files named"),
        Sign("unexpected end of data"),
        Sign("Not a gzipped file"),
        Sign("Unable to load vocabulary from file"),
        Sign("could not parse ModelProto"),
        Sign("Bad CRC-32"),
        Sign("expected value at line 1 column 1"),
        Sign("EOF while parsing"),
        Sign("Not a valid model file"),
        Sign("Error parsing line b'"),
        Sign("file is corrupted"),
        Sign("-packages/safetensors/", where="raised"),
        Sign("torch/serialization.py", where="raised"),
        Sign("FileIntegrityError", releases="modelscope"),
        Sign("integrity check failed", releases="modelscope"),
        Sign("integrity check failed, ", where="line", also=("ERROR",), releases="modelscope"),
        Sign("SHA256 mismatch"),
        Sign("hash mismatch", also=("ownload",)),
        Sign("does not contain the valid metadata"),
        Sign("containing more than one `.index.json`"),
        Sign("SafetensorError", no=("while serializing",)),
        Sign("The safetensors archive passed at"),
    ),
    examples=(
        Example(
            "safetensors_rust.SafetensorError: Error while deserializing "
            "header: incomplete metadata, file not fully covered",
            "made by causing it, safetensors 0.8.0",
        ),
        Example(
            "RuntimeError: PytorchStreamReader failed reading zip archive: "
            "failed finding central directory",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="safetensors' and torch's own messages.",
    narrow=1,
)

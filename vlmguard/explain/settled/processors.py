"""Processors and tokenizers: what their files lack, whose code they are, what cuts a row."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_PATCHED = (
    'python -c \'import json, os, sys; p = sys.argv[1] + "/processor_config.json"; d = '
    "json.load(open(p)) if os.path.exists(p) else {}; d.update(patch_size=14, "
    'vision_feature_select_strategy="default"); json.dump(d, open(p, "w"), indent=2)\''
)
TABLE = (
    Settled(
        said=("argument 'padding_value'", "must be float, not NoneType"),
        steps=(
            "tokenizer.pad_token = tokenizer.eos_token: behind from_pretrained, in front of the "
            "trainer: rows are padded with a token that the tokenizer does not name",
        ),
        why="the tokenizer has no padding token, so that rows cannot be padded with it",
        code="VG574",
    ),
    Settled(
        said=("token count between text and `input_ids`", "truncation="),
        trace=("unsloth_zoo/vision_utils.py",),
        steps=(
            "UnslothVisionDataCollator(model, tokenizer, max_seq_length=8192): and max_seq_length="
            "8192 in SFTConfig(…), too: the collator cuts by a limit of its own",
        ),
        code="VG506",
    ),
    *(
        Settled(
            said=("unsupported operand type(s) for //: 'int' and 'NoneType'",),
            trace=(f"/processing_{name}.py",),
            steps=(
                (
                    f"{_PATCHED} {{modelfolder}}: its processor_config.json is of before "
                    "transformers 4.45, and lacks both (14 and default: LLaVA 1.5 and 1.6)",
                    "processor.patch_size = model.config.vision_config.patch_size; "
                    "processor.vision_feature_select_strategy = "
                    "model.config.vision_feature_select_strategy: behind from_pretrained: the "
                    "processor_config.json is of before transformers 4.45, and lacks both",
                ),
                "hf download REPO processor_config.json --local-dir MODEL: the newer file of the "
                "same model, which has them",
            ),
            why="the processor counts an image's tokens itself, and was told no size of a patch",
            code="VG556",
        )
        for name in ("llava", "llava_next", "llava_next_video")
    ),
    *(
        Settled(
            said=(f"object has no attribute '{name}'",),
            trace=("transformers/tokenization_utils.py", "in __init__"),
            steps=(
                "python -m pip install 'transformers==4.33.3': newer ones add tokens in the "
                "tokenizer's own __init__, before the model's code has set {attribute}",
                "hf download MODEL --include 'tokenization_*.py' --force-download: the model's own "
                "code of today, where its page has a newer one",
            ),
            since="transformers 4.34",
            code="VG570",
        )
        for name in ("IMAGE_ST", "sp_model", "tokenizer", "sp_tokenizer", "tokenizer_model")
    ),
    Settled(
        said=("Unrecognized image processor in", "Qwen2.5-VL"),
        steps=(
            (
                "sed -i 's/Qwen2_5_VLImageProcessor/Qwen2VLImageProcessor/' "
                "{path}/preprocessor_config.json: the file is of before the release 4.49, "
                "which took the first name back",
                "hf download {modelrepo} preprocessor_config.json --force-download: the file of "
                "before the release 4.49 names a class that it took back",
            ),
            "grep image_processor_type {path}/preprocessor_config.json: another name there, "
            "or no such file: the one of the model's page",
        ),
        why="the processor's file names a class that this transformers does not have",
        code="VG556",
    ),
    Settled(
        said=("config class you passed", "transformers_modules."),
        steps=(
            "{place}: config=AutoConfig.from_pretrained(MODEL, trust_remote_code=True), of the "
            "folder of the model: each folder's code is a class of its own, and this one came from "
            "another (an adapter's, a copy)",
        ),
        why="the configuration and the model come from two copies of the model's own code",
        code="VG556",
    ),
)

"""What the repositories of vision-language models bring to fine-tune them: LLaVA's, MiniCPM-V's,
InternVL's own code."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_NO_TOKENS = "--mm_use_im_start_end False --mm_use_im_patch_token False"
_CUT = (
    "(MODEL_MAX_Length in finetune_lora.sh), or a smaller --max_slice_nums: the row was cut within "
    "its image tokens, so that some have a begin and no end"
)
_CONTEXT = (
    "InternVL's own code does not know which token stands for an image: its chat() sets that, "
    "generate(), forward() and a trainer of another do not"
)
TABLE = (
    Settled(
        said=("AssertionError",),
        trace=("initialize_vision_tokenizer", "num_new_tokens == 2"),
        steps=(
            f"{_NO_TOKENS}: as LLaVA's own scripts have it; the tokens of --mm_use_im_start_end "
            "are in this tokenizer already",
            "--model_name_or_path lmsys/vicuna-7b-v1.5 (a language model without LLaVA's tokens), "
            "where they are wanted, and --pretrain_mm_mlp_adapter brings their embeddings",
        ),
        why=(
            "--mm_use_im_start_end adds <im_start> and <im_end> to the tokenizer, and this one has "
            "them: the model was trained by LLaVA before"
        ),
        code="VG553",
    ),
    Settled(
        said=("KeyError: 'model.embed_tokens.weight'",),
        trace=("initialize_vision_tokenizer",),
        steps=(
            f"{_NO_TOKENS}: as LLaVA's own scripts have it; with --mm_use_im_start_end true the "
            "embeddings of two more tokens are asked of the projector's file, which lacks them",
        ),
        why="the projector's file was made without tokens for an image's begin and end",
        code="VG553",
    ),
    Settled(
        said=("size mismatch for model.mm_projector", "shape in current model is", ", 1])"),
        steps=(
            "the same command without --load-4bit (--load-8bit): the projector that the adapter "
            "brings does not fit one that is packed in 4 bits already",
            "python scripts/merge_lora_weights.py --model-path ADAPTER --model-base BASE "
            "--save-model-path MERGED: then --model-path MERGED --load-4bit, without --model-base",
        ),
        why=(
            "the model was loaded in 4 bits, which packs each weight into one column; the trained "
            "projector is whole"
        ),
        code="VG577",
    ),
    Settled(
        said=("AssertionError",),
        trace=("self.img_context_token_id is not None",),
        steps=(
            'model.img_context_token_id = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"): behind '
            "from_pretrained and before get_peft_model (behind it: on model.get_base_model(), a "
            "wrapper does not hand it on)",
        ),
        why=_CONTEXT,
        code="VG510",
    ),
    Settled(
        said=("'bool' object has no attribute 'sum'",),
        trace=("modeling_internvl_chat.py", "in forward"),
        steps=(
            'model.img_context_token_id = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"): behind '
            "from_pretrained; compared with None no token is an image's",
            'question = "<img>" + model.num_image_token * "<IMG_CONTEXT>" + "</img>" + question: '
            "for each tile of an image: forward() wants these tokens in the text, which "
            "chat() puts there; and no max_length that cuts them off",
        ),
        why=_CONTEXT,
        code="VG510",
    ),
    Settled(
        said=("process_vision_info() got an unexpected keyword argument 'image_patch_size",),
        steps=("python -m pip install -U 'qwen-vl-utils>=0.0.14': which takes {argument}",),
    ),
    Settled(
        said=("Union[arg, ...]: each arg must be a type. Got Ellipsis",),
        steps=(
            "{place}: Tuple[…, ...] in place of Union[…, ...] (from typing import Tuple): a type "
            "that Python refuses; or git pull there, if it is another's code",
        ),
        why="a type in the code is none that Python takes: the code is broken, not the run",
        code="VG579",
    ),
    Settled(
        said=("'list' object has no attribute 'shape'",),
        trace=("in conversation_to_ids",),
        steps=(
            "--llm_type qwen (LLM_TYPE in finetune_lora.sh; for MiniCPM-V-2_6, MiniCPM-o-2_6 and "
            "later; llama3 for MiniCPM-Llama3-V-2_5): minicpm is for MiniCPM-V-2 alone",
            "input_ids = np.hstack(input_ids); context = np.hstack(context): in front of the "
            "return of conversation_to_ids_minicpm in dataset.py, for MiniCPM-V-2 itself",
        ),
        why="the rows were to be put into another language model's form, whose code has a fault",
        code="VG574",
    ),
    Settled(
        said=("Sizes of tensors must match except in dimension 1",),
        trace=("in conversation_to_ids",),
        steps=(
            (
                f"--model_max_length {{longer}} {_CUT}",
                f"--model_max_length 4096 {_CUT}",
            ),
            "--llm_type qwen (MiniCPM-V-2_6 and later; llama3 for MiniCPM-Llama3-V-2_5): where "
            "fewer begins than ends were counted: of another type a row's first token is lost",
        ),
        why="images' begins and ends differ in number: a row was cut, or lost its first token",
        code="VG511",
    ),
)

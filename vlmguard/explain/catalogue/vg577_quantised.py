"""A quantised model cannot be trained or moved in this way."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG577",
    name="explain-quantised",
    title="A quantised model cannot be trained, moved or loaded in this way",
    zh="量化模型不能以这种方式训练、移动或加载",
    why=(
        "the model is quantised (bitsandbytes, GPTQ, AWQ, FP8): its own weights "
        "cannot be trained, cast or moved, and each kind needs its package, a card "
        "that can, and adapters on top"
    ),
    do=(
        Do(
            "MODEL=Qwen/Qwen-VL-Chat-Int4 in the launch script (--model_name_or_path "
            "Qwen/Qwen-VL-Chat-Int4, as --q_lora wants it): GPTQ cannot quantise a model that sees "
            "on loading; or the model as it is, without --q_lora (finetune_lora_single_gpu.sh)",
            "none",
            when=("have passed ./Qwen-VL", "have passed Qwen/Qwen-VL"),
            kind="gptq",
        ),
        Do(
            "--model_name_or_path with the model's ready GPTQ checkpoint (its page has one, named "
            "-GPTQ-Int4 or -Int4): a model that sees is not quantised on loading; or LoRA on the "
            "model as it is, without the flag that quantises (--q_lora, quantization_bit)",
            "none",
            when=("only support quantization for text model",),
            kind="gptq",
        ),
        Do(
            "leave --quant_method, --quant_bits and quantization_config out: the model is "
            "quantised already, in a way of its own",
            "none",
            when=(
                "but you are passing",
                "The model is quantized with",
            ),
        ),
        Do(
            "a list of texts, or one of c4, wikitext2, as the rows that GPTQ measures with, "
            "at least 128 of them, each longer than 2048 tokens: shorter ones are left out, "
            "and none was left",
            "none",
            when=("IndexError: list index",),
        ),
        Do(
            "pad the head to a multiple of 16 (a class number, a vocabulary), or leave that "
            "layer out of the conversion to fp8: it multiplies in blocks of 16",
            "none",
            when=("to be divisible by 16",),
        ),
        Do(
            "--dataset c4 (or wikitext2): the rows that GPTQ measures with are one of its own "
            "sets, or a list of texts",
            "other rows than yours for measuring",
            when=("string value for dataset",),
        ),
        Do(
            "python -m pip install -U bitsandbytes",
            "none",
            when=(
                "latest version of bitsandbytes",
                "str2optimizer",
                "bitsandbytes`",
                "pip install bitsandbytes",
                "-U bitsandbytes",
            ),
        ),
        Do(
            "python -m pip install gptqmodel optimum",
            "none",
            when=("gptqmodel", "auto-gptq", "optimum (`pip install"),
        ),
        Do("python -m pip install autoawq", "none", when=("auto-awq library",)),
        Do(
            "the quantised layers must be called as the package's own (Linear4bit, Linear8bitLt): "
            "no adapter code that calls F.linear(x, weight), no nn.DataParallel "
            "(CUDA_VISIBLE_DEVICES=0, or torchrun)",
            "none",
            when=("shapes cannot be multiplied",),
        ),
        Do(
            "merge into the model that is not quantised: the base model as --model, the adapter as "
            "--adapters (ms-swift), adapter_name_or_path (LLaMA-Factory); quantise afterwards",
            "more memory",
            when=("merge-lora", "Cannot merge", "merge adapters before"),
        ),
        Do(
            'device_map={"": int(os.environ["LOCAL_RANK"])}: the whole model on each rank\'s '
            "own card, "
            "no .to() and no .half()",
            "memory for a whole model on each card",
            when=(
                "dispatched on the CPU",
                "different device",
                "is not supported for `4-bit",
                "is not supported for `8-bit",
                "CPU or disk device",
                "cannot cast",
            ),
        ),
        Do(
            "lora",
            "fewer weights learn",
            unless=(
                *("IndexError", "divisible by 16", "pip install", "The model is quantized with"),
                "quantization for text model",
            ),
        ),
        Do(
            "the checkpoint that is not quantised, with lora under ZeRO-2 or ZeRO-3",
            "more memory",
            unless=("quantization for text model",),
        ),
        Do(
            'one whole model for each rank: device_map={"": local_rank}, no .to() and no .half()',
            "memory for a whole model on each card",
            unless=(
                *("dispatched on the CPU", "different device", "is not supported for"),
                "quantization for text model",
            ),
        ),
        Do(
            "pip install -U bitsandbytes (or the package that the message names)",
            "none",
            unless=("quantization for text model",),
        ),
    ),
    wrong=(
        "ZeRO-3 and FSDP cut weights apart: only bitsandbytes in 4 bits with "
        "bnb_4bit_quant_storage set to the compute dtype goes with them."
    ),
    signs=(
        Sign("only support quantization for text model", releases="optimum's GPTQ"),
        Sign("perform fine-tuning on purely quantized models"),
        Sign("that quantization method do not support training"),
        Sign("is not supported for `4-bit` or `8-bit`"),
        Sign("is not supported for `8-bit`"),
        Sign("is not supported for `4-bit`"),
        Sign("Some modules are dispatched on the CPU or the disk"),
        Sign(
            "requires the latest version of bitsandbytes",
        ),
        Sign("bitsandbytes", also=("pip install",)),
        Sign("isn't supported yet", also=("TypeError",), releases="AutoAWQ"),
        Sign("optimum/gptq/", where="raised"),
        Sign("is already a quantized model"),
        Sign("swift/llm/export.py", where="raised", releases="ms-swift 2"),
        Sign("Please set the quant_bits"),
        Sign("swift/llm/export/quant.py", where="raised"),
        Sign("swift/pipelines/export/quant.py", where="raised"),
        Sign(
            "loaded in 8-bit or 4-bit precision",
        ),
        Sign("is incompatible with PTQ-quantized"),
        Sign("Unknown quantization type"),
        Sign("4-bit converted model"),
        Sign("8-bit converted model"),
        Sign("can't be cast to the desired output type Byte"),
        Sign("can't be cast to the desired output type Char"),
        Sign("Only Tensors of floating point and complex dtype can require gradients"),
        Sign(
            "quantized model requires",
        ),
        Sign("quantized model", also=("is not supported",)),
        Sign("Blockwise quantization only supports"),
        Sign("got Float and Byte"),
        Sign("got Half and Byte"),
        Sign("got BFloat16 and Byte"),
        Sign("FP4 quantization state not initialized"),
        Sign("quant_state"),
        Sign("FP8 quantized models is only supported"),
        Sign("quantization is only supported on GPUs"),
        Sign("optimum (`pip install"),
        Sign("auto-awq library"),
        Sign("gptqmodel"),
        Sign("auto-gptq"),
        Sign("The model is quantized with"),
        Sign("Cannot merge LORA layers when the model is"),
        Sign("Only 4-bit quantized model"),
        Sign("cannot cast a bitsandbytes model"),
        Sign("cannot cast a GPTQ model"),
        Sign("quantization_config"),
        Sign("Quantization is not supported with meta device"),
        Sign("Cannot merge adapters to a quantized model"),
        Sign("fp8e4nv not supported"),
        Sign("-packages/bitsandbytes/", where="raised"),
        Sign("transformers/quantizers/", where="raised"),
        Sign("transformers/integrations/bitsandbytes.py", where="raised"),
        Sign("-packages/auto_gptq/", where="raised"),
        Sign("-packages/gptqmodel/", where="raised"),
        Sign("-packages/awq/", where="raised"),
        Sign("-packages/peft/tuners/lora/bnb.py", where="raised"),
        Sign("-packages/peft/utils/loftq_utils.py", where="raised"),
        Sign("model_utils/quantization.py", where="raised"),
        Sign("-packages/torchao/", where="raised"),
        Sign("in validate_quantization_for_training", where="raised"),
        Sign("expected there to be only one unique element"),
        Sign("has been loaded in 8-bit"),
        Sign("has been loaded in 4-bit"),
        Sign("str2optimizer8bit"),
        Sign("name 'str2optimizer"),
        Sign("does not support merge-lora", releases="ms-swift"),
        Sign("is needed for quantization"),
        Sign("load_in_8bit and load_in_4bit"),
        Sign("load_in_4bit and load_in_8bit"),
        Sign("bnb_4bit_"),
        Sign("is not compatible with 4bit quantization"),
        Sign("fine-tune quantized model with `torch.compile()`"),
        Sign("device_map that contains a CPU or disk device"),
        Sign("only supports int8 weights for now"),
        Sign("does not support quantized models"),
        Sign("int8 quantization is supported"),
        Sign("._data'", also=("KeyError",), releases="quanto"),
        Sign("You have entered a string value for dataset", releases="optimum's GPTQ"),
        Sign("Cannot resize embedding layers of a quantized model", releases="LLaMA-Factory"),
        Sign("merge adapters before quantizing", releases="LLaMA-Factory"),
        Sign("in _get_quantization_dataset", where="raised", releases="LLaMA-Factory"),
        Sign("You must implement either the backward or vjp method"),
        Sign("'Params4bit' object has no attribute"),
        Sign("'Int8Params' object has no attribute"),
        Sign("'Linear4bit' object has no attribute"),
        Sign("'Linear8bitLt' object has no attribute"),
        Sign("floating point", also=("can require gradients",)),
        Sign("transformers/quantizers/", where="within", no=("out of memory",)),
        Sign("bitsandbytes/optim/", where="within", no=("out of memory",)),
        Sign("bitsandbytes/functional.py", where="within", no=("out of memory",)),
        Sign("bitsandbytes/nn/", where="within", no=("out of memory",)),
        Sign("quantiz", where="else"),
        Sign("bitsandbytes", where="else"),
        Sign("4-bit", where="else"),
        Sign("8-bit", where="else"),
        Sign("4bit", where="else"),
        Sign("8bit", where="else"),
        Sign("GPTQ", where="else"),
        Sign("AWQ", where="else"),
        Sign("to be divisible by 16 but got", releases="torch._scaled_mm, fp8"),
        Sign("to be divisible by 16, got", releases="torch._scaled_mm, fp8"),
    ),
    examples=(
        Example(
            "ValueError: You cannot perform fine-tuning on purely quantized "
            "models. Please attach trainable adapters on top of the quantized "
            "model to correctly perform fine-tuning.",
            "transformers/trainer_utils.py, 5.19.0",
        ),
        Example(
            "ValueError: `.to` is not supported for `4-bit` or `8-bit` bitsandbytes models.",
            "transformers/modeling_utils.py, 4.49",
        ),
        Example(
            "ImportError: Using `bitsandbytes` 4-bit quantization requires "
            "bitsandbytes: `pip install -U bitsandbytes>=0.46.1`",
            "transformers/quantizers/quantizer_bnb_4bit.py, 5.19.0",
        ),
    ),
    evidence="transformers' and accelerate's own checks.",
    narrow=2,
)

"""Calls that two releases do not agree on: which one has to move, and to where."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

# What transformers took from its cache, and the first release without it.
_CACHE = {
    "get_max_length": "4.49",
    "seen_tokens": "4.54",
    "get_usable_length": "4.54",
    "from_legacy_cache": "5",
}
TABLE = (
    Settled(
        said=("read_json() got an unexpected keyword argument 'dtype_backend'",),
        steps=(
            "python -m pip install -U 'pandas>=2.0': datasets hands over what read_json takes "
            "since then (it reads a file by pandas where its own reader failed: rows of other "
            "forms)",
        ),
        why="the releases of datasets and pandas do not fit each other",
        code="VG570",
    ),
    Settled(
        said=("__init__() got an unexpected keyword argument 'init_",),
        trace=("cls(config, *model_args, **model_kwargs)",),
        steps=(
            "{place}: without init_vision, init_audio and init_tts: those are MiniCPM-o's, and "
            "this checkpoint's class (a MiniCPM-V) does not take them",
            "git log --oneline | head, in the project's folder: the scripts of the time of this "
            "model, or MiniCPM-o's own checkpoint",
        ),
        why="the script hands the model arguments of another family",
        code="VG553",
    ),
    Settled(
        said=("ForCausalLM' object has no attribute 'generate'",),
        steps=(
            "python -m pip install 'transformers<4.52': newer ones give a model of its own code no "
            "generate() by themselves; or class …(PreTrainedModel, GenerationMixin) in the file "
            "that defines it",
        ),
        since="transformers 4.52",
        more=True,
    ),
    Settled(
        said=("linalg.svd: The input tensor A must have at least 2 dimensions",),
        trace=("in pissa_init",),
        steps=(
            "python -m pip install -U 'peft>=0.12': which gathers the weight under ZeRO-3 before "
            "it is taken apart",
            "init_lora_weights=True in LoraConfig(…), where this peft has to stay: LoRA's own "
            "beginning, not PiSSA's",
        ),
        why="under ZeRO-3 the weight that PiSSA takes apart is empty on this rank",
        mended="peft 0.12",
        code="VG523",
    ),
    *(
        Settled(
            said=(f"__init__() got an unexpected keyword argument '{name}'",),
            trace=("in from_pretrained", "cls(config, *model_args, **model_kwargs)"),
            steps=(
                f"quantization_config=BitsAndBytesConfig({name}=True) in from_pretrained, in place "
                f"of {name}=True: transformers 5 takes it so alone; before {since}: python -m pip "
                "install -U transformers accelerate bitsandbytes",
            ),
        )
        for name, since in (("load_in_8bit", "4.22"), ("load_in_4bit", "4.30"))
    ),
    Settled(
        said=("No module named 'transformers.modeling_layers'",),
        trace=("peft/",),
        steps=(
            "python -m pip install 'peft<0.18': newer ones ask for what transformers has since "
            "4.52; or python -m pip install -U 'transformers>=4.52', where the code bears it",
        ),
        mended="transformers 4.52",
    ),
    Settled(
        said=("has no attribute 'get_submodule'",),
        steps=(
            "python -m pip install -U 'torch>=1.9' torchvision: Module.get_submodule is torch's, "
            "since 1.9; or the peft of that time",
        ),
        mended="torch 1.9",
        code="VG570",
    ),
    Settled(
        said=("object has no attribute 'peft_config'",),
        unless=("-packages/peft/", "-packages/trl/", "-packages/transformers/trainer"),
        steps=(
            '{place}: getattr(model, "peft_config", None) in place of model.peft_config (the name '
            "that stands there): a model without an adapter has none",
        ),
        why="the code asks a model for its adapters' configuration, and it has no adapter yet",
    ),
    Settled(
        said=("'MatmulLtState' object has no attribute 'memory_efficient_backward'",),
        trace=("peft/",),
        steps=(
            "python -m pip install -U 'peft>=0.14' bitsandbytes: bitsandbytes 0.45 has it no more, "
            "and older peft asks for it",
        ),
        why="the releases of peft and bitsandbytes do not fit each other",
        mended="peft 0.14",
        code="VG570",
    ),
    Settled(
        said=("FullyShardedDataParallelPlugin' has no attribute 'get_module_class_from_name'",),
        steps=(
            "python -m pip install -U 'peft>=0.11': accelerate 0.30 moved it, and older peft looks "
            "for it in the old place; or python -m pip install 'accelerate<0.30'",
        ),
        why="the releases of peft and accelerate do not fit each other",
        mended="peft 0.11",
        code="VG570",
    ),
    Settled(
        said=("FullyShardedDataParallelPlugin' object has no attribute 'activation_check",),
        steps=(
            "python -m pip install -U 'accelerate>=0.23': this transformers asks FSDP's plugin for "
            "what it has since then",
        ),
        mended="accelerate 0.23",
    ),
    Settled(
        said=("'AcceleratorState' object has no attribute 'distributed_type'",),
        trace=("/llava/",),
        steps=(
            "python -m pip install 'accelerate==0.21.0' 'transformers==4.37.2' "
            "'deepspeed==0.12.6': the releases that LLaVA pins; others lose accelerate's state "
            "between the arguments and the training",
        ),
    ),
    Settled(
        said=("'AcceleratorState' object has no attribute 'distributed_type'",),
        steps=(
            "python -m pip install -U accelerate transformers: the two together; still so: one "
            "TrainingArguments(…) or Accelerator() for the process, made last before the trainer "
            "(each new one puts accelerate's state back)",
        ),
    ),
    Settled(
        said=("Optimizer", "object has no attribute 'train'"),
        trace=("accelerate/optimizer.py",),
        steps=(
            "python -m pip install -U 'accelerate>=0.34': its call of optimizer.train() asks first "
            "whether there is one",
        ),
        mended="accelerate 0.34",
    ),
    Settled(
        said=("unexpected keyword argument 'keep_torch_compile'",),
        steps=(
            "python -m pip install -U 'accelerate>=1.3': the Trainer hands over what its "
            "unwrap_model knows since then",
        ),
        mended="accelerate 1.3",
    ),
    Settled(
        said=("forward() got an unexpected keyword argument 'num_items_in_batch'",),
        steps=(
            "trainer.model_accepts_loss_kwargs = False: in front of trainer.train(): the Trainer "
            "takes a forward with **kwargs for one that knows num_items_in_batch, and a wrapper "
            "hands it on to one that does not",
        ),
    ),
    Settled(
        said=("Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'",),
        steps=(
            "python -m pip install 'accelerate<1.0': this transformers hands over what 1.0 took "
            "away; or python -m pip install -U transformers",
        ),
    ),
    Settled(
        said=("Accelerator.__init__() got an unexpected keyword argument 'use_seedable_sampler'",),
        steps=(
            "python -m pip install -U 'accelerate>=0.28' 'transformers>=4.40': the two agree on "
            "DataLoaderConfiguration from there on",
        ),
    ),
    Settled(
        said=("cannot import name 'log' from 'torch.distributed.elastic.agent.server.api'",),
        steps=(
            "python -m pip install -U 'deepspeed>=0.14.1': torch 2.4 and later have no such name, "
            "and older DeepSpeed asks for it",
        ),
        mended="deepspeed 0.14.1",
    ),
    Settled(
        said=("No module named 'torch._six'",),
        trace=("deepspeed/",),
        steps=("python -m pip install -U 'deepspeed>=0.8.2': torch 2 has no torch._six",),
        mended="deepspeed 0.8.2",
    ),
    Settled(
        said=("cannot import name 'DTensor' from 'torch.distributed.tensor'",),
        steps=(
            "python -m pip install -U 'torch>=2.5' torchvision: the name is public since then; or "
            "python -m pip install 'accelerate<1.9'",
        ),
        mended="torch 2.5",
    ),
    Settled(
        said=("argument of type 'NoneType' is not iterable",),
        trace=("ALL_PARALLEL_STYLES",),
        steps=(
            "python -m pip install -U 'torch>=2.5' torchvision: this transformers has no parallel "
            "styles beside an older torch; or python -m pip install 'transformers<4.52'",
        ),
        mended="torch 2.5",
    ),
    Settled(
        said=("prepare_model_for_kbit_training() got an unexpected keyword argument",),
        steps=("python -m pip install -U 'peft>=0.6': which takes {argument} there",),
        mended="peft 0.6",
    ),
    Settled(
        said=("LlamaRotaryEmbedding.forward() missing 1 required positional argument",),
        steps=(
            "python -m pip install 'transformers<4.38': the code that replaces Llama's attention "
            'calls it as transformers did before; or attn_implementation="flash_attention_2" '
            "in from_pretrained, and that code out",
        ),
        code="VG570",
    ),
    *(
        Settled(
            said=("Config' object has no attribute '" + name,),
            unless=("-packages/",),
            steps=(
                "{place}: config.get_text_config()." + name + ": a model that sees keeps it in "
                "its text part's config",
            ),
        )
        for name in ("vocab_size'", "hidden_size'", "num_hidden_layers'", "num_attention_heads'")
    ),
    *(
        Settled(
            said=("Config' object has no attribute '" + name,),
            trace=("-packages/",),
            steps=(
                "python -m pip install -U {ownerpackage}: a model that sees keeps it in its text "
                "part's config (config.get_text_config()), which newer ones ask",
            ),
        )
        for name in ("vocab_size'", "hidden_size'", "num_hidden_layers'", "num_attention_heads'")
    ),
    Settled(
        said=("got an unexpected keyword argument 'softcap'",),
        steps=(
            "python -m pip install --no-build-isolation -U 'flash-attn>=2.6': older ones do not "
            'know Gemma 2\'s softcap; or attn_implementation="eager" in from_pretrained',
        ),
        mended="flash-attn 2.6",
    ),
    Settled(
        said=("gradient_checkpointing_enable() got an unexpected keyword argument",),
        steps=(
            "python -m pip install -U 'transformers>=4.35' peft: which take "
            "gradient_checkpointing_kwargs; a model's own code that does not: take it out of the "
            "call in {place}",
        ),
        mended="transformers 4.35",
    ),
    Settled(
        said=("_set_gradient_checkpointing() got an unexpected keyword argument 'enable'",),
        steps=(
            "python -m pip install 'transformers<4.35': the model's own code is written for it; "
            "or def _set_gradient_checkpointing(…) taken out of the modeling file in the model's "
            "folder: newer ones have their own",
        ),
    ),
    Settled(
        said=("does not support gradient checkpointing",),
        steps=(
            "no_checkpointing",
            "model.language_model.gradient_checkpointing_enable(): a part that does (InternVL's "
            "own script: --grad_checkpoint True)",
        ),
    ),
    Settled(
        said=("does not support an attention implementation through torch", "scaled_dot_product"),
        steps=(
            'attn_implementation="eager": in from_pretrained (--attn_implementation eager): this '
            "model's own code has no sdpa",
        ),
    ),
    Settled(
        said=("does not support Flash Attention 2",),
        steps=(
            'attn_implementation="sdpa": in from_pretrained (--attn_implementation sdpa; "eager", '
            "where that is refused, too): this model has no flash-attention",
        ),
    ),
    Settled(
        said=("VLProcessor.__init__() got multiple values for argument",),
        steps=(
            "python -m pip install -U transformers: the processor's files were saved by a newer "
            "one; or preprocessor_config.json of the base model over that of the checkpoint",
        ),
    ),
    *(
        Settled(
            said=(f"DynamicCache' object has no attribute '{name}'",),
            steps=(
                f"python -m pip install 'transformers<{gone}': the model's own code asks for "
                f"{name}, which newer ones do not have; or from_pretrained(…) without "
                "trust_remote_code, where transformers has the model itself (Phi-3, DeepSeek-V2)",
            ),
        )
        for name, gone in _CACHE.items()
    ),
)

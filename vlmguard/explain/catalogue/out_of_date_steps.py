"""What to change where code and package disagree (VG570)."""

from __future__ import annotations

from vlmguard.explain.failure import Do

# The packages, and code that a model brings with it.
_SITE = (
    "$(python -c 'import sysconfig; print(sysconfig.get_paths()[\"purelib\"])') "
    "~/.cache/huggingface/modules"
)
STEPS = (
    Do(
        "python -m pip install -U transformers: 4.38 and 4.39 logged the gradient's norm as a "
        "tensor, which trainer_state.json cannot hold; a newer one: .item() on what "
        "compute_metrics or a callback of yours logs",
        "none, where nothing pins it",
        when=("Tensor is not JSON serializable",),
        kind="check",
    ),
    Do(
        "OpenGVLab/InternVL3-8B and its kind in place of those whose name ends in -hf "
        "(trust_remote_code=True): only their own code has chat()",
        "runs the model's own code",
        when=(
            "'InternVLModel' object has no attribute 'chat'",
            "'InternVLForConditionalGeneration' object has no attribute 'chat'",
        ),
        kind="check",
    ),
    Do(
        "python -m pip install -U 'transformers>=4.49': AutoProcessor gave a tokenizer, "
        "since it does not know this model's processor; it is newer: ls the model's "
        "folder: preprocessor_config.json is missing",
        "none",
        when=(
            "TokenizerFast' object has no attribute 'tokenizer'",
            "Tokenizer' object has no attribute 'image_processor'",
            "TokenizerFast' object has no attribute 'image_processor'",
        ),
        kind="check",
    ),
    Do(
        "{newname} instead of {argument}: it has another name in this release (or python "
        "-m pip install -U transformers, where that one is of before 4)",
        "none",
        when=("TypeError: __init__() got an unexpected",),
        kind="check",
    ),
    Do(
        "{lightning} in place of {argument}=…: Lightning's Trainer has it no more; the "
        "code as it is wants python -m pip install 'pytorch-lightning<1.7'",
        "none",
        when=("Trainer.__init__() got",),
        kind="check",
    ),
    Do(
        "git pull; python -m pip install -e ., in the repository of {place}: it and "
        "{ownclass} are of different releases; or take {argument}=… out of the call in "
        "that line",
        "none",
        when=("unexpected keyword argument",),
        kind="check",
    ),
    Do(
        "python -m pip install 'transformers<4.34': 4.34 and 4.35 hand padding_mask to the "
        "attention, and the one of this program is of before them",
        "other releases than those that are there",
        when=("argument 'padding_mask'",),
        kind="check",
    ),
    Do(
        "print(type(model)) before the training: {forward} does not take {argument}; "
        "another class or wrapper was meant, or --remove_unused_columns true takes "
        "{argument} out of the batch",
        "none",
        when=(".forward() got an unexpected",),
        kind="check",
    ),
    Do(
        "return_dict=True in the model's call or its config; an older transformers gives tuples",
        "none",
        when=("'tuple' object has no attribute",),
    ),
    Do(
        "return_dict=False in the model's call, or .last_hidden_state, .logits of its answer: "
        "since transformers 4 a model gives a dictionary, and unpacking that gives its keys",
        "none",
        when=("string indices must be integers",),
    ),
    Do(
        "set_peft_model_state_dict(model, …) without model = in front: since peft 0.3 it changes "
        "the model in place and gives none back",
        "none",
        when=("'print_trainable_parameters'",),
    ),
    Do(
        "the line that is named: flash-attn 2.7 gives one value more than 2.6 (name, *_ = "
        "unpad_input(…) takes both), or python -m pip install 'flash-attn<2.7'",
        "none",
        when=("values to unpack",),
    ),
    Do(
        "def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None): "
        "transformers 4.46 and later hand it over, to a Trainer of your own too",
        "none",
        when=("compute_loss() got an unexpected keyword argument 'num_items_in_batch'",),
    ),
    Do(
        "def training_step(self, model, inputs, num_items_in_batch=None): transformers 4.46 and "
        "later hand it over, to a Trainer of your own too",
        "none",
        when=("training_step() takes 3 positional arguments but 4",),
    ),
    Do(
        "python -m pip install -U trl: its GRPOTrainer is older than this transformers (4.52 and "
        "later hand over the data set); or 'transformers<4.52'",
        "none",
        when=("GRPOTrainer._get_train_sampler() takes 1",),
    ),
    Do(
        "def _get_train_sampler(self, train_dataset=None): transformers 4.52 and later hand it "
        "over; or python -m pip install -U trl, where the Trainer is TRL's",
        "none",
        when=("_get_train_sampler() takes 1 positional argument but 2",),
    ),
    Do(
        "processing_class=tokenizer instead of tokenizer=tokenizer",
        "none",
        when=("Trainer.__init__() got an unexpected keyword argument 'tokenizer'",),
    ),
    Do(
        "python -m pip install -U 'transformers>=4.46', where the Trainer takes it; or "
        "tokenizer=tokenizer for the one that is here",
        "none",
        when=("Trainer.__init__() got an unexpected keyword argument 'processing_class'",),
    ),
    Do(
        "python -m pip install -U 'accelerate>=0.34': older ones call train() of any optimizer "
        "for transformers 4.45 and later, whether it has one or not",
        "none",
        when=(
            "'AdamW' object has no attribute 'train'",
            "_Stage3' object has no attribute 'train'",
        ),
        kind="check",
    ),
    Do(
        "--save_strategy steps --save_steps 1000000 instead of no: what asks for it is a line "
        "after the training, which is done",
        "one checkpoint",
        when=("no attribute 'last_model_checkpoint'",),
    ),
    Do(
        "project_dir=… instead of logging_dir=…: accelerate renamed it in 0.17",
        "none",
        when=("Accelerator.__init__() got an unexpected keyword argument 'logging_dir'",),
    ),
    Do(
        "yaml.safe_load(file) instead of yaml.load(file): PyYAML 6 wants a loader named",
        "none",
        when=("argument: 'Loader'",),
    ),
    Do(
        "python -m pip install -U datasets: an older one does not know this fsspec",
        "none",
        when=("cached in a LocalFileSystem",),
    ),
    Do(
        "python -m pip install -U {framework} trl: the two are released for each other, and one of "
        "them is older here",
        "none",
        when=(
            "'GRPOTrainer' object",
            "'GRPOConfig' object",
            "'RLHFArguments' object",
            "DPOTrainer' obj",
        ),
        kind="check",
    ),
    Do(
        "python -m pip install -U triton liger-kernel, in the releases that this torch names "
        "(python -m pip show torch)",
        "none",
        when=("'tensor' object has no attribute 'cast'", "\\'tensor\\' ob"),
        kind="check",
    ),
    Do(
        "grep transformers_version {modelfolder}/config.json, and python -m pip install "
        "'transformers==THAT': the model's own code is older than this transformers",
        "none",
        when=("'_initialize_weights'", "'seen_tokens'", "'get_max_length'", "'get_usable_length'"),
        kind="check",
    ),
    Do(
        "grep -r transformers_version ~/.cache/huggingface/hub/*/snapshots/*/config.json, and "
        "python -m pip install 'transformers==THAT': the model's own code is older than this "
        "transformers",
        "none",
        when=("'_initialize_weights'", "'seen_tokens'", "'get_max_length'", "'get_usable_length'"),
        kind="check",
    ),
    Do("python -m pip install {wanted}, in the environment of the job", "none", kind="check"),
    Do("python -m pip install -U peft", "none", when=("version of PEFT", "PEFT version")),
    Do(
        "python -m pip install {attributepin}: {owner} has {attribute} in no other release; or "
        "the newest release of the program that asks for it",
        "other releases than those that are there",
        kind="check",
    ),
    Do(
        "{upstream}: it was raised in its own code, which is of another time than the packages "
        "beside it; the newest one already: an issue there with this traceback",
        "other releases than those that are there",
        kind="check",
    ),
    Do(
        "python -m pip install -U {asker} {ownerpackage}: {asker} asks for {owner}.{attribute}, "
        "which this {ownerpackage} does not have: one of the two is of another time (or both as "
        "the program's requirements pin them)",
        "other releases than those that are there",
        unless=("'torch' has no", "'numpy' has no", "module 'torch", "module 'numpy"),
        kind="check",
    ),
    Do(
        "print(type(model), [n for n, _ in model.named_children()]), in front of {askedin}: no "
        "{attribute} among them: the code is for another model than the one that was loaded "
        "(another release of that family): --model_name_or_path as the code's README names it; "
        "deeper within: model.model.{attribute}",
        "a minute",
        kind="check",
    ),
    Do(
        "python -m pip show {ownerpackage}; python -m pip check: this release has no "
        "{owner}.{attribute}; install the one in the requirements of the program that asks "
        "for it",
        "none",
        kind="check",
    ),
    Do(
        f"grep -rnE -A20 'class {{class}}\\b' {_SITE} . | grep -A20 __init__ | head -30: what it "
        "takes here; python -m pip install -U its package, or call it with what it takes",
        "none",
        when=("unexpected keyword argument", "positional argument", "multiple values"),
        kind="check",
    ),
    Do(
        "grep -rn -A 9 'def {function}(' {callfolder}: what it takes, {argument} is none of it: "
        "the name that it has for that, in {place}; or git pull, if file and caller are of "
        "different days",
        "none",
        when=("unexpected keyword argument",),
        kind="check",
    ),
    Do(
        f"grep -rn 'def {{function}}(' {_SITE} . | head: the package that defines it, and what "
        "it takes there; python -m pip install -U that package, or call it with what it takes",
        "none",
        when=("unexpected keyword argument", "positional argument", "multiple values"),
        kind="check",
    ),
    Do(
        f"grep -rnE 'class {{owner}}\\b' {_SITE} . | head: the package that defines it has no "
        "{attribute} there; python -m pip install -U it, or the release in the requirements of the "
        "program that asks",
        "none",
        kind="check",
    ),
    Do(
        "python -m pip check; python -m pip list | grep -i -E 'torch|transformers|peft|trl|"
        "accelerate|deepspeed|swift': the releases beside those in the requirements of the "
        "program that raises it",
        "none",
        kind="check",
    ),
    Do(
        "DISABLE_VERSION_CHECK=1 in front of the command, where the model needs the newer release "
        "that is here: LLaMA-Factory's check alone refuses it",
        "a combination that it was not tried with",
        when=("DISABLE_VERSION_CHECK",),
    ),
    Do(
        "the framework's newest release: python -m pip install -U {framework}",
        "none",
        unless=("XLMRobertaForMaskedLM", "BGEM3Model", "BiEncoderModel"),
    ),
    Do(
        "for a model with its own code (trust_remote_code): the "
        "transformers that its config.json names",
        "none",
    ),
)

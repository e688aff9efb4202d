"""Weights, adapters and the hub: what was never written, what is asked for too often."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_TOKENIZERS = {"Qwen2Tokenizer": "4.37", "GemmaTokenizer": "4.38", "LlamaTokenizer": "4.28"}
_STATES = (
    "ls CHECKPOINT/global_step*: on every node: mp_rank_00_model_states.pt, or under ZeRO-3 "
    "zero_pp_rank_N_… of each rank, is not on this rank's node: rsync -a FIRST_NODE:CHECKPOINT/ "
    "CHECKPOINT/, from each node that has some, and an --output_dir that all nodes share from now "
    "on; they are nowhere: the checkpoint before",
)
TABLE = (
    Settled(
        said=("Error while deserializing header",),
        trace=("load_peft_weights",),
        steps=(
            (
                "ls -l {saved}: adapter_model.safetensors of less than 1 kB was never filled: "
                "take the lines old_state_dict = model.state_dict and model.state_dict = (…) out "
                "of {main} (PEFT hands over its own weights), and train anew",
                "take the lines old_state_dict = model.state_dict and model.state_dict = (…) out "
                "of {main}: they hand the Trainer an empty adapter, which safetensors cannot "
                "read; PEFT hands over its own weights without them",
            ),
            "ls -l CHECKPOINT/adapter_model.safetensors: less than 1 kB: nothing was saved in it",
        ),
        why=(
            "the adapter's file is empty or no safetensors: alpaca-lora and its kin replace "
            "model.state_dict, and what is saved then holds no weights"
        ),
    ),
    Settled(
        said=("429 Client Error", "huggingface"),
        steps=(
            "hf auth whoami || hf auth login: (HF_TOKEN in the job's environment) a token has a "
            "quota of its own, without one all jobs behind this address share one",
            "hf download --repo-type dataset {dataset}: once, before the start, then "
            "HF_HUB_OFFLINE=1 in front of the command; no streaming with many ranks and workers",
            "HF_HUB_OFFLINE=1 in front of the command, where all files are in the cache already: "
            "no rank asks the hub any more",
        ),
        why=(
            "the hub counts requests (for each five minutes, by token or address) and refuses "
            "more: every rank and every loader's worker asks for itself"
        ),
    ),
    Settled(
        said=("cannot import name 'HybridCache' from 'transformers'",),
        trace=("peft/",),
        steps=(
            "python -m pip install -U 'peft>=0.18': transformers 5 has no HybridCache, and older "
            "peft asks for it; or python -m pip install 'transformers<5'",
        ),
        mended="peft 0.18",
    ),
    Settled(
        said=("cannot import name 'EncoderDecoderCache' from 'transformers'",),
        trace=("peft/",),
        steps=(
            "python -m pip install 'peft<0.14': newer ones ask for transformers 4.43 and later; or "
            "python -m pip install 'transformers>=4.43', where the code bears it",
        ),
    ),
    Settled(
        said=("has no attribute 'set_submodule'",),
        steps=(
            "python -m pip install 'torch>=2.5' torchvision: transformers puts the quantised "
            "layers in by Module.set_submodule, which torch has since 2.5; or the transformers "
            "that was there before",
        ),
        mended="torch 2.5",
    ),
    Settled(
        said=("`.to` is not supported for `4-bit` or `8-bit` bitsandbytes models",),
        trace=("in dispatch_model",),
        steps=(
            "python -m pip install 'accelerate<1.2': 1.2 and later move a model of 4 bits to its "
            "card, which transformers before 4.45 refuses; or python -m pip install -U "
            "'transformers>=4.45' 'bitsandbytes>=0.43.2'",
        ),
        mended="transformers 4.45",
    ),
    Settled(
        said=("`.to` is not supported for `4-bit` or `8-bit` models",),
        trace=("in dispatch_model",),
        steps=(
            "python -m pip install -U transformers accelerate bitsandbytes: the three together: "
            "this accelerate does not see that the model is quantised, and moves it",
        ),
    ),
    Settled(
        said=("is on the meta device, we need a `value` to put in",),
        trace=("transformers/modeling_utils.py", "dispatch_model("),
        unless=("/peft/",),
        steps=(
            "from_pretrained(…, low_cpu_mem_usage=True): in {place}: (transformers' examples: "
            "--low_cpu_mem_usage) so each weight is put on its card as it is read",
            "python -m pip install -U transformers accelerate: newer ones load so by themselves",
        ),
        why="a weight was still empty (meta) when accelerate was to put it on its card",
    ),
    Settled(
        said=("got an unexpected keyword argument 'enable_lora'",),
        trace=("from_pretrained",),
        steps=(
            "sed -i.bak -E '/\"(enable_lora|merge_weights)\"/d' ADAPTER/adapter_config.json: the "
            "adapter is of peft 0.2, and these have no meaning any more where they are null or "
            "false; enable_lora is a list there: python -m pip install 'peft==0.2.0', which alone "
            "reads it",
        ),
        why="the adapter was saved by peft 0.2, whose configuration newer ones do not know",
        code="VG585",
    ),
    Settled(
        said=("Some tensors share memory",),
        trace=("accelerate/checkpointing.py",),
        steps=(
            "accelerator.save_state(FOLDER, safe_serialization=False): in {place}: torch's own "
            "format bears two names for one tensor",
        ),
        more=True,
    ),
    Settled(
        said=("cannot import name 'flash_attn", "from 'flash_attn'"),
        steps=(
            "python -m pip install -U --no-build-isolation 'flash-attn>=2': 1.x has no such name; "
            "or python -m pip uninstall -y flash-attn, where the model may go without",
        ),
        mended="flash-attn 2",
    ),
    Settled(
        said=("with `device_map='auto'` in any distributed mode",),
        steps=(
            'device_map={"": int(os.environ.get("LOCAL_RANK", 0))}: in from_pretrained, in place '
            'of device_map="auto": the whole model on each rank\'s own card',
            "python in place of torchrun or accelerate launch (accelerate launch --num_processes "
            "1): one process that spreads the model over the cards, where it does not fit one",
        ),
        why=(
            'device_map="auto" spreads one model over all cards, and several ranks would each '
            "do that"
        ),
    ),
    Settled(
        said=("unexpected keyword argument 'quant_storage'",),
        steps=(
            "python -m pip install -U 'bitsandbytes>=0.43': older ones do not know quant_storage",
        ),
        mended="bitsandbytes 0.43",
    ),
    Settled(
        said=("GLIBC_2.34' not found", "libbitsandbytes_cuda12"),
        steps=(
            "BNB_CUDA_VERSION=125 in front of the command: the library for CUDA 12.5 is built "
            "for this older glibc",
            "python -m pip install -U 'bitsandbytes>=0.46'",
        ),
    ),
    Settled(
        said=("expected scalar type Half but found Float",),
        trace=("bitsandbytes/",),
        steps=(
            'with torch.autocast("cuda"): trainer.train(): in {main}; --fp16 true does the same '
            "for a Trainer",
            "model = prepare_model_for_kbit_training(model): before get_peft_model, without "
            ".half() behind it",
        ),
    ),
    Settled(
        said=("Tokenizer class TokenizersBackend does not exist",),
        steps=(
            "python -m pip install -U 'transformers>=5': the tokenizer was saved by transformers 5",
            "grep -n tokenizer_class {modelfolder}/tokenizer_config.json: the class's own name "
            "there (Qwen2Tokenizer, LlamaTokenizerFast, …), where this transformers has to stay",
        ),
        mended="transformers 5",
    ),
    Settled(
        said=("'list' object has no attribute 'keys'",),
        trace=("_set_model_specific_special_tokens",),
        steps=(
            "python -m pip install -U 'transformers>=5': the tokenizer was saved by transformers "
            "5, which writes extra_special_tokens as a list",
            "extra_special_tokens out of the model's tokenizer_config.json, where this "
            "transformers has to stay",
        ),
        why="the tokenizer's file is of a newer transformers than the one that reads it",
        code="VG570",
    ),
    Settled(
        said=("Tokenizer class LLaMATokenizer does not exist",),
        steps=(
            "sed -i 's/LLaMATokenizer/LlamaTokenizer/' MODEL/tokenizer_config.json: the model's "
            "file spells the class in the old way",
        ),
    ),
    *(
        Settled(
            said=(f"Tokenizer class {name} does not exist",),
            steps=(f"python -m pip install -U 'transformers>={since}': which has {name}",),
        )
        for name, since in _TOKENIZERS.items()
    ),
    Settled(
        said=("`rope_scaling` must be a dictionary with two fields", "llama3"),
        steps=("python -m pip install -U 'transformers>=4.43': which knows Llama 3.1's scaling",),
        mended="transformers 4.43",
    ),
    Settled(
        said=("`rope_scaling` must be a dictionary with", "longrope"),
        steps=("python -m pip install -U 'transformers>=4.43': which knows this scaling",),
        mended="transformers 4.43",
    ),
    Settled(
        said=("serious vulnerability issue in `torch.load`",),
        steps=(
            "python -m pip install -U 'torch>=2.6' torchvision: this transformers reads .bin, .pt "
            "and .pth files with no older torch",
            "python -m pip install 'transformers<4.52': which reads them with the torch that is "
            "here; or weights as safetensors (a checkpoint's optimizer.pt is none)",
        ),
        why=(
            "transformers refuses torch.load before torch 2.6: the file is a pickle, and reading "
            "it can run code"
        ),
        mended="torch 2.6",
        code="VG570",
    ),
    Settled(
        said=("weights offloaded to the disk. Please provide an `offload_folder`",),
        steps=(
            'from_pretrained(…, offload_folder="offload"): so it loads; what lies on the disk '
            "does not train",
            "BitsAndBytesConfig(load_in_4bit=True) with LoRA, or ZeRO-3 with torchrun: for "
            "training, where the model does not fit the card",
        ),
    ),
    Settled(
        said=("self.ckpt_list) > 0",),
        steps=_STATES,
    ),
    Settled(
        said=("AssertionError",),
        trace=("in check_ckpt_list", "assert len(self.ckpt_list) > 0"),
        steps=_STATES,
    ),
    Settled(
        said=("no kernel image is available for execution on the device at line",),
        steps=(
            "python -m pip install -U bitsandbytes: its library has no code for this card (new "
            "cards need a new one; before sm_60 none has any)",
        ),
    ),
    Settled(
        said=("No module named 'triton.ops'",),
        trace=("bitsandbytes/",),
        steps=("python -m pip install -U 'bitsandbytes>=0.45.1': it goes with triton 3.2",),
        mended="bitsandbytes 0.45.1",
    ),
    Settled(
        said=("cannot import name 'is_offline_mode' from 'huggingface_hub'",),
        steps=(
            "python -m pip install -U 'huggingface_hub>=1.3': transformers 5 wants it; or "
            "python -m pip install 'transformers<5'",
        ),
        mended="huggingface-hub 1.2",
    ),
    Settled(
        said=("CAS service error",),
        steps=(
            "HF_HUB_DISABLE_XET=1 in front of the same command: the plain download, which goes on "
            "where it stopped",
            "HF_XET_FIXED_DOWNLOAD_CONCURRENCY=4 in front of the same command (hf_xet before 1.3: "
            "HF_XET_NUM_CONCURRENT_RANGE_GETS=4): fewer requests at once, where Xet has to stay",
        ),
        why="the hub's Xet storage did not answer; the files are there by the plain way, too",
    ),
    Settled(
        said=("416 Client Error", "Range Not Satisfiable"),
        steps=(
            'find "${HF_HOME:-$HOME/.cache/huggingface}" -name "*.incomplete" -delete: a part of '
            "an earlier download is longer than the file; then the same command",
        ),
        why="a broken part of an earlier download lies in the cache, and cannot be gone on with",
    ),
    Settled(
        said=("You are calling `save_pretrained`", "4-bit converted model"),
        steps=(
            "python -m pip install -U 'bitsandbytes>=0.41.3' 'transformers>=4.37': which write "
            "4-bit weights",
            "model.save_pretrained(FOLDER) of PEFT's model: the adapter alone, which needs "
            "neither; no merge_and_unload() in front of it",
        ),
    ),
    Settled(
        said=("The model you want to train is loaded in 8-bit precision",),
        steps=(
            "--model_name_or_path FOLDER_OF_THE_UNQUANTISED_MODEL: the weights that were stored in "
            "8 or 4 bits are not trained by this Trainer; for QLoRA load_in_4bit=True and "
            "prepare_model_for_kbit_training(model) on the whole ones",
            "python -m pip install -U 'bitsandbytes>=0.37' transformers: where the script itself "
            "loads them with load_in_8bit=True",
        ),
        why=(
            "the Trainer takes 8- or 4-bit weights only from a loader that marks them as fit for "
            "training, and then under adapters"
        ),
        code="VG577",
    ),
    Settled(
        said=("conda", "libstdc++.so.6: version `GLIBCXX"),
        steps=(
            "conda install -y -c conda-forge libstdcxx-ng: conda's own libstdc++ is the one that "
            "was found, and is older than the compiler that built it",
            "LD_PRELOAD=$(gcc -print-file-name=libstdc++.so.6) in front of the same command: the "
            "library of the compiler that built it",
        ),
    ),
    Settled(
        said=("Unable to load weights from pytorch checkpoint file for",),
        steps=(
            'ls -l {folder}; head -c 130 {path}: it begins with "version": a git-lfs pointer: git '
            "-C {folder} lfs pull; shorter than its neighbours or than the model's page says: that "
            "file anew (hf download NAME --local-dir {folder} --force-download, or made again with "
            "enough disk and memory)",
        ),
        why="the file is cut or is no file of weights: a download, a copy or a save broke off",
        code="VG541",
        more=True,
    ),
    Settled(
        said=("Invalid argument (os error 22)",),
        trace=("safetensors/torch.py",),
        steps=(
            "--output_dir FOLDER_ON_A_LOCAL_DISK (--save of Megatron's scripts), and copy it from "
            "there afterwards: the file system of the folder (FUSE, an object store) refuses how "
            "safetensors writes a file; the disk is not full",
            "python -c 'import sys, torch; from safetensors.torch import save_file; "
            'save_file({"x": torch.zeros(9)}, sys.argv[1])\' FOLDER/x.safetensors: in that folder: '
            "the same error in a second, without a run",
        ),
        why="the file system of that folder does not take the call with which a file is written",
        code="VG580",
    ),
)

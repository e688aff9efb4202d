"""The first thing to type fits the cause, not only the class: rows of class, message, beginning."""

# ruff: noqa: E501
from __future__ import annotations

from vlmguard.explain import flags, moved, unknown
from vlmguard.explain.catalogue import load
from vlmguard.explain.event import Event
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import Facts

KNOWN = {known.code: known for known in load()}
PLACE = 'File "/job/train.py", line 7, in main x = row["emotion"] '

ROWS = (
    ("VG538", "ImportError: /env/flash_attn_2_cuda.cpython-39-x86_64-linux-gnu.so: undefined symbol: _ZNK3c10", "python -m pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps flash-attn==$(python -c"),
    ("VG538", "ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found", "LD_LIBRARY_PATH=$CONDA_PREFIX/lib"),
    ("VG538", "RuntimeError: CUDA Setup failed despite GPU being available.", "python -m pip install -U --force-reinstall --no-deps bitsandbytes"),
    ("VG538", "OSError: libsndfile.so.1: cannot open shared object file: No such file or directory", "apt-get install libsndfile1"),
    ("VG539", "OSError: Can't load tokenizer for 'org/name'. make sure you don't have a local directory with the same name.", "ls -la org/name"),
    ("VG539", "Authentication token does not exist, failed to access model /d/qwen which may not exist or may be private.", "ls -l /d/qwen"),
    ("VG539", "OSError: You are trying to access a gated repo. 403 Client Error. url https://huggingface.co/org/name. Your request to access model org/name is awaiting a review from the repo authors.", "hf auth whoami, in the job: with that account open https://huggingface.co/org/name: its request waits"),
    ("VG539", "OSError: You are trying to access a gated repo. 403 Client Error. https://huggingface.co/org/name. Access to model org/name is restricted and you are not in the authorized list.", "hf auth whoami, in the job: ask for access"),
    ("VG539", "OSError: You are trying to access a gated repo. 401 Client Error. https://huggingface.co/org/name. Access to model org/name is restricted. You must be authenticated to access it.", "hf auth login (huggingface-cli"),
    ("VG540", "requests.exceptions.ProxyError: Unable to connect to proxy", "env | grep -i proxy"),
    ("VG540", "ReadTimeoutError: HTTPSConnectionPool: Read timed out. (read timeout=10)", "HF_HUB_DOWNLOAD_TIMEOUT=60"),
    ("VG541", "RuntimeError: PytorchStreamReader failed reading zip archive", "python -c 'import sys, zipfile"),
    ("VG542", "port: 60009, EADDRINUSE", "ss -ltnp 'sport = :60009'"),
    ("VG543", "NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes, error: No space left on device", "docker run --shm-size=16g"),
    ("VG545", "IndexError: Target 7 is out of bounds.", "num_labels=N"),
    ("VG547", "TypeError: unsupported operand type(s) for //: 'str' and 'int'", '"train_micro_batch_size_per_gpu": 1'),
    ("VG550", "RuntimeError: The state of _OptimStateKey(x) is empty.", "FullyShardedDataParallel(…, use_orig_params=True)"),
    ("VG552", "ImportError: cannot import name 'shard_checkpoint' from 'transformers.modeling_utils'", "python -m pip install 'transformers<4.47'"),
    ("VG552", "pkg_resources.DistributionNotFound: The 'transformers<4.45,>=4.33' distribution was not found", "python -m pip install 'transformers<4.45,>=4.33'"),
    ("VG553", 'yaml.scanner.ScannerError: mapping values are not allowed here in "a.yaml", line 41, column 24', "sed -n 39,42p a.yaml"),
    ("VG553", "train.py: error: argument --num_worker: expected one argument", "--num_worker VALUE"),
    ("VG553", "ValueError: `scale_rewards` must be one of 'group', 'batch', got 'x'.", "scale_rewards with one of the values"),
    ("VG553", "ValueError: Please set --model /g/merge.sh: line 2: --model: command not found", "grep -nE '\\\\[[:space:]]+$' /g/merge.sh"),
    ("VG548", "ImportError: This modeling file requires the following packages that were not found in your environment: flash_attn.", "python -m pip install flash-attn"),
    ("VG553", "tune.py: error: unrecognized arguments: --local_rank=3 --experiment-name x --mode finetune --train-iters 800", "python tune.py --help: what this script takes; local_rank, experiment-name, mode and more"),
    ("VG566", "ValueError: max_num_batched_tokens (4096) is smaller than max_model_len (131072).", "max_model_len=4096"),
    ("VG574", "jinja2.exceptions.UndefinedError: 'list object' has no attribute 'startswith'", 'messages = [{**t, "content"'),
    ("VG591", "ValueError: Total available GPUs 0 is less than total desired GPUs 8", "ray status: cards under Usage"),
    ("VG554", "KeyError: 'emotion'", "/job/train.py:7: print(list(row)) in front of this line"),
    ("VG554", "ValueError: invalid literal for int() with base 10: '45.7'", "/job/train.py:7: int(float(x))"),
    ("VG555", "cv2.error: OpenCV(4.9.0) (-215:Assertion failed) !ssize.empty() in function 'resize'", "/job/train.py:7: print the path"),
    ("VG556", "ImportError: cannot import name 'Qwen3VLForConditionalGeneration' from 'transformers' (/x)", "python -m pip install 'transformers>=4.57'"),
    ("VG556", "ImportError: cannot import name 'LLavaForConditionalGeneration' from 'transformers' (/x)", "python -c 'import transformers as t"),
    ("VG556", "ValueError: Unrecognized configuration class <class 'transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLConfig'> for this kind of AutoModel: AutoModelForCausalLM.", "AutoModelForImageTextToText"),
    ("VG556", "ValueError: Unrecognized configuration class <class 'transformers.models.clip.configuration_clip.CLIPVisionConfig'> for this kind of AutoModel: AutoModelForCausalLM.", "AutoModel.from_pretrained"),
    ("VG557", "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'", "python -c 'from deepspeed.ops.op_builder import CPUAdamBuilder"),
    ("VG557", "RuntimeError: Ninja build failed.", "grep -n -m5 -E 'error:|fatal error|not found' train.log"),
    ("VG559", "RuntimeError: CUDA error: invalid device ordinal", "torchrun --nproc_per_node $(nvidia-smi -L | wc -l)"),
    ("VG559", "NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000", "torch.cuda.set_device"),
    ("VG562", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "grep -n 'batch_size' /job/train.py: half of the micro-batch"),
    ("VG562", "RuntimeError: GET was unable to find an engine to execute this computation", "unset LD_LIBRARY_PATH, then"),
    ("VG562", "RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1"),
    ("VG550", "_pickle.UnpicklingError: Weights only load failed. (1) In PyTorch 2.6, we changed the default value of the `weights_only` argument", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 in front of the command"),
    ("VG550", "_pickle.UnpicklingError: Weights only load failed. (1) Re-running", "python -m pip install -U transformers"),
    ("VG563", "Connection closed by peer", "vlmguard explain train.log OTHER_LOG"),
    ("VG563", "RendezvousConnectionError: The connection to the C10d store has failed", "vlmguard explain train.log FIRST_NODES_LOG"),
    ("VG566", "ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after 240.0 seconds.", "trl vllm-serve --model"),
    ("VG566", "RuntimeError: Engine core initialization failed. See root cause above.", "grep -n -m3 -E"),
    ("VG569", "Main process received SIGINT, exiting", "ls -td ./*/checkpoint-*"),
    ("VG574", 'TypeError: can only concatenate list (not "str") to list', 'messages = [{**t, "content"'),
    ("VG575", "ValidationError: 1 validation error for DeepSpeedZeroConfig overlap_comm Input should be a valid boolean", '"overlap_comm": with a value'),
    ("VG576", "ValueError: Could not find the transformer layer class Qwen2VLDecoderLayer in the model.", "print({type(m).__name__ for m in model.modules()}): Qwen2VLDecoderLayer"),
    ("VG579", "ImportError: cannot import name 'StrEnum' from 'enum'", "conda create -n py311"),
    ("VG580", "ValueError: Output directory (/out) already exists and is not empty.", "another --output_dir"),
    ("VG580", "FileNotFoundError: [Errno 2] No such file or directory: 'output/history.pkl'", "mkdir -p output"),
    ("VG581", "HTTPError: 429 Client Error: Too Many Requests for url: http://10.3.0.9:8000/v1", "/job/train.py:7: wait and ask again"),
    ("VG582", "RuntimeError: stack expects each tensor to be equal size, but got [3, 448, 448] at entry 0", "image.resize"),
    ("VG583", "AttributeError: Can't pickle local object 'main.<locals>.preprocess'", "def preprocess(…)"),
    ("VG585", "TypeError: LoraConfig.__init__() got an unexpected keyword argument 'layer_replication'", "python -m pip install -U peft"),
    ("VG587", "KeyError: \"The `metric_for_best_model` training argument is set to 'eval_f1'", "--metric_for_best_model eval_loss"),
    ("VG588", "RuntimeError: ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length 2, got 1)", "/job/train.py:7: [torch.empty_like(x)"),
    ("VG590", "/var/spool/slurm_script: line 110: accelerate: command not found", "command -v accelerate"),
    ("VG590", "/env/bin/python: can't open file '/job/trian.py': [Errno 2] No such file or directory", "ls -l /job"),
    ("VG591", "ValueError: Total available GPUs 4 is less than total desired GPUs 8", "trainer.n_gpus_per_node=4"),
    ("VG597", "ValueError: Expected input batch_size (4096) to match target batch_size (8).", "AutoModelForSequenceClassification"),
    ("VG597", "RuntimeError: 0D or 1D target tensor expected, multi-target not supported", "labels.argmax(-1)"),
    ("VG594", "ValueError: The number of GPUs per node is not divisible by the number of tensor parallelism.", "tensor_parallel_size=1"),
    ("VG566", "ValueError: Total number of attention heads (52) must be divisible by tensor parallel size (8).", "--tensor-parallel-size 4 "),
    ("VG570", "TypeError: Trainer.__init__() got an unexpected keyword argument 'weights_save_path'", "default_root_dir=… in place of weights_save_path"),
    ("VG570", "TypeError: Qwen2VLGRPOTrainer.__init__() got an unexpected keyword argument 'freeze_vision_modules'", "git pull; python -m pip install -e ., in the repository of /job/train.py:7"),
    ("VG553", "TypeError: FinetuningConfig.__init__() got an unexpected keyword argument 'combine'", "grep -rnw combine"),
    ("VG578", "CalledProcessError: /tmp/tmpx/main.c:1:10: fatal error: cuda.h: No such file or directory", "CPATH=/usr/local/cuda/include"),
    ("VG585", "ValueError: Adapter merge_model not found in odict_keys(['default'])", "model.set_adapter"),
    ("VG555", "FileNotFoundError: [Errno 2] No such file or directory: '/data/coco/train2014/000000185326.jpg'", "ls -l /data/coco/train2014/000000185326.jpg; ls /data/coco/train2014 | head -3"),
    ("VG587", "ValueError: eval dataset split is too small for sample_packing. You should set `eval_sample_packing: False`.", "eval_sample_packing: False: the message"),
    ("VG554", "datasets.builder.DatasetGenerationError: An error occurred while generating the dataset", "python -c $'import json, sys\\nk, t"),
    ("VG554", "DatasetGenerationCastError: All the data files must have the same columns", "load_dataset(…, data_files="),
    ("VG580", "PermissionError: [Errno 13] Permission denied: 'F:\\\\repos\\\\pytorch_model.bin'", "end what has the file open"),
    ("VG553", "TypeError: Unsloth: UnslothVisionDataCollator is only for image models!", "python -m pip install -U unsloth"),
    ("VG584", "ValueError: environment variable RANK expected, but not set", "torchrun --nproc_per_node $(nvidia-smi -L | wc -l) /job/train.py"),
    ("VG570", "AttributeError: 'Qwen2TokenizerFast' object has no attribute 'tokenizer'", "python -m pip install -U 'transformers>=4.49'"),
    ("VG570", "AttributeError: 'Phi3VModel' object has no attribute 'wte'", "python -m pip show transformers"),
    ("VG541", "OSError: Error no file named model.safetensors found in directory checkpoints/base/phi-2/.", "ls -l checkpoints/base/phi-2/: adapter_model"),
    ("VG598", "botocore.exceptions.NoCredentialsError: Unable to locate credentials", "aws configure list"),
)  # fmt: skip


def test_what_to_type_first():
    wrong = []
    for code, message, first in ROWS:
        said = Facts(message=message, trace=PLACE, log="train.log")
        step = flags.say(KNOWN[code].remedies(said)[0], said)
        if not step.startswith(first):
            wrong.append((code, message, step))
    assert not wrong
    assert moved.pin("transformers", "no_such_name") == ""


# of the Trainer: a collator asks for what its forward does not name; a loader cannot send a lambda
TRACES = (
    ("VG550", "UnpicklingError: Weights only load failed.", 'File "/e/transformers/trainer.py", line 9, in _load_rng_state', "mkdir CHECKPOINT/aside && mv CHECKPOINT/rng_state*.pth"),
    ("VG554", "KeyError: 'seq_len'", 'File "/env/lib/python3.11/site-packages/transformers/trainer.py", line 9, in train File "/job/t.py", line 28, in data_collator s = f["seq_len"]', "--remove_unused_columns false"),
    ("VG583", "AttributeError: Can't pickle local object 'a.<locals>.<lambda>'", 'File "/env/torch/utils/data/dataloader.py", line 9, in __iter__', "DataLoader(num_workers=0)"),
)  # fmt: skip
UNKNOWN = (
    ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (576x1024 and 4096x1024)", "/job/train.py:7: the layer takes vectors of 4096 numbers and got 1024"),
    ("IndexError", "index 5 is out of bounds for dimension 0 with size 0", "/job/train.py:7: print(x.shape)"),
    ("ValueError", "too many values to unpack (expected 2)", "/job/train.py:7: a, *rest"),
    ("KeyError", "'emotion'", "/job/train.py:7: print(list(row))"),
    ("RuntimeError", "the moon is full", "sed -n 1,10p /job/train.py: the line that raised it"),
)  # fmt: skip

LOOP = 'File "/job/train.py", line 7, in run self.inner.train() File "<string>", line 29, in _fast_inner_training_loop'
CALLED = 'File "/e/site-packages/transformers/trainer.py", line 9, in log return self.callback_handler.on_log(x) '
# The file that raised it, a user's own callback before it → the first step.
RAISED = (
    ("NameError", "/app/ms-swift/swift/trainers/mixin.py", "git -C /app/ms-swift pull; python -m pip install -e /app/ms-swift: "),
    ("IndexError", "/e/lib/python3.11/site-packages/llamafactory/data/mm_plugin.py", "python -m pip install -U llamafactory: "),
    ("KeyError", "/home/u/verl/recipe/norm/adv.py", "sed -n 1,12p /home/u/verl/recipe/norm/adv.py"),
    ("SMTPAuthenticationError", "/opt/conda/lib/python3.10/smtplib.py", "/job/train.py:7: try: … except"),
)  # fmt: skip
# An unknown failure's type and message, its own line of code → the first step.
LOOKED = (
    ("UnboundLocalError", "local variable 'feats' referenced before assignment", PLACE, "grep -nw feats /job/train.py: "),
    ("UnboundLocalError", "cannot access local variable 'feats' where it is not associated with a value", PLACE, "grep -nw feats "),
    ("ZeroDivisionError", "float division by zero", 'File "/job/train.py", line 7, in area w = 1.0 / area_of(row["box"])', '/job/train.py:7: max(area_of(row["box"]), 1e-6)'),
    ("ZeroDivisionError", "division by zero", 'File "/job/train.py", line 7, in _reweigh return [c.difficulty * (seen / c.quota) for c in self.corpora]', "/job/train.py:7: max(c.quota, 1) in its place: one of self.corpora has 0 here; or without that one: for c in self.corpora if c.quota"),
    ("ZeroDivisionError", "division by zero", 'File "/job/train.py", line 7, in main mean = loss / n_tokens', "/job/train.py:7: max(n_tokens, 1) in its place, or leave out"),
    ("AssertionError", "gt box not x0y0x1y1: [[0.6, 0.2, 0.15, 0.33]]", 'File "/job/train.py", line 5, in forward self.loss(h, batch["boxes"]) File "/job/train.py", line 7, in giou assert (b[:, 2:] >= b[:, :2]).all(), f"gt box: {b[0, 1]}"', 'print([n for n, row in enumerate(train_dataset) for v in [torch.as_tensor(row["boxes"])] if not ((v[:, 2:] >= v[:, :2]).all())]), on a line of /job/train.py'),
    ("AssertionError", "", 'File "/job/train.py", line 5, in forward self.loss(h, batch["boxes"]) File "/job/train.py", line 7, in giou assert (b[:, 2:] >= b[:, :2]).all()', "sed -n 1,10p /job/train.py: the line that raised it: (b[:, 2:] >= b[:, :2]).all() was not so"),
    ("ZeroDivisionError", "integer division or modulo by zero", LOOP, "print(len(self.inner.train_dataset), self.inner.args.per_device_train_batch_size"),
    ("AssertionError", "('480p', 2048)", 'File "/job/train.py", line 7, in main assert b.cursor < len(b.items), (b.name, b.cursor)', "sed -n 1,10p /job/train.py: the line that raised it: b.cursor < len(b.items) was not so, and it printed ('480p', 2048)"),
    ("KeyError", "'loss'", CALLED + 'File "/job/train.py", line 7, in on_log self.h.append(logs["loss"])', '/job/train.py:7: logs.get("loss")'),
    ("UnicodeEncodeError", "'ascii' codec can't encode characters in position 7-19: ordinal not in range(128)", PLACE, "PYTHONUTF8=1 "),
    ("_tkinter.TclError", 'couldn\'t connect to display "localhost:10.0"', PLACE, "MPLBACKEND=Agg in front of the command"),
    ("TypeError", "Object of type int64 is not JSON serializable", PLACE, "/job/train.py:7: json.dump(…, default=lambda x: x.tolist())"),
    ("statistics.StatisticsError", "mean requires at least one data point", PLACE, '/job/train.py:7: float("nan")'),
    ("RecursionError", "maximum recursion depth exceeded", 'File "/job/train.py", line 7, in __getattr__ return getattr(self.inner, name)', '/job/train.py:7: if name == "inner": raise AttributeError(name)'),
    ("OverflowError", "cannot convert float infinity to integer", CALLED + 'File "/job/train.py", line 7, in on_step_end eta = timedelta(seconds=self.smoothed * left)', "/job/train.py:7: if not math.isfinite(self.smoothed): return"),
    ("ValueError", "cannot convert float NaN to integer", 'File "/job/train.py", line 7, in main n = int(ratio * 10)', "/job/train.py:7: ratio if math.isfinite(ratio) else 0"),
    ("KeyError", "'model.merger.bias'", 'File "/job/train.py", line 7, in main p.mul_(self.shadow[name])', "/job/train.py:7: print(list(self.shadow)[:20])"),
)  # fmt: skip


def test_what_the_frames_tell():
    for code, message, trace, first in TRACES:
        said = Facts(message=message, trace=trace)
        assert flags.say(KNOWN[code].remedies(said)[0], said).startswith(first), code
    line = Line(0, 1, 0, None, "", None, "", "x", "x")
    for kind, message, first in UNKNOWN:
        event = Event(line, kind, message, frames=[("/job/train.py", 7, "<module>")], trace=[PLACE])
        assert next(unknown.steps(event)).startswith(first), message
    for kind, message, trace, first in LOOKED:
        frames = [("/job/train.py", 7, "main")]
        frames += [("<string>", 29, "_fast_inner_training_loop")] if trace is LOOP else []
        event = Event(line, kind, message, frames=frames, trace=[trace])
        assert next(unknown.steps(event)).startswith(first), message
    for kind, path, first in RAISED:
        frames = [("/job/train.py", 7, "main"), (path, 9, "f")]
        trace = [f'{CALLED}File "/job/train.py", line 7, in on_log x[k] File "{path}", line 9, in f']
        event = Event(line, kind, "'k'", frames=frames, trace=trace)
        assert next(unknown.steps(event)).startswith(first), (path, list(unknown.steps(event)))
    assert next(unknown.steps(Event(line, "RuntimeError", "the moon is full"))).startswith(
        "2>&1 | tee"
    )

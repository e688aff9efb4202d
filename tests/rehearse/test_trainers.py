"""What is changed of commands of TRL, LLaMA-Factory and FlagEmbedding; none of them is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.rehearse import stand_in_rows, training_rows
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.request import Request
from vlmguard_flagembedding import rehearse as flagembedding
from vlmguard_llamafactory import dataset_formats
from vlmguard_llamafactory import rehearse as llamafactory
from vlmguard_transformers.data import cut
from vlmguard_transformers.rehearsal import cpu_flags
from vlmguard_trl import rehearse as trl

KNOWN = ("model_name_or_path", "dataset_name", "dataset", "dataset_dir", "media_dir", "max_steps",
         "optim", "bf16", "learning_rate", "output_dir", "gradient_checkpointing", "train_data",
         "gradient_accumulation_steps", "max_grad_norm", "deepspeed", "lora_dropout",
         "disable_gradient_checkpointing", "disable_shuffling", "per_device_train_batch_size",
         "ddp_find_unused_parameters", "image_max_pixels")  # fmt: skip
SMALL = {"weights": 10, "full": 0}
CHAT = {"messages": [{"role": "user", "content": "<image>what?"},
                     {"role": "assistant", "content": "that"}], "images": ["a.png"]}  # fmt: skip


DATA = {trl: ("a.jsonl",), llamafactory: (), flagembedding: ("a.jsonl",)}
"""TRL writes a table of what is not JSON lines, LLaMA-Factory looks its data sets up."""


@pytest.fixture
def request_of(tmp_path):
    def made(argv=(), **more):
        here = str(tmp_path)
        given = {"strategy": "zero3", "world": 8, "model": here, "name": "m", "scratch": here,
                 "media": ("image",), "known": KNOWN, "media_root": here, "entry": "sft", **more}
        return Request("x", argv=tuple(argv), folder=here, **given)

    return made


def commands(module, request, tmp_path, count=4):
    single = training_rows.write(tmp_path / "rows-single.jsonl", [CHAT] * count)
    made = {**SMALL, "folder": str(tmp_path / "tiny")}
    told = module.commands(request, made, single, single, 2)
    return Argv(list(told.argv)), Argv(list(told.reference)), told


def test_numbers_say_what_the_gradients_were_and_the_reference_has_neither_wrapper_nor_blocks(
    request_of, tmp_path
):
    (tmp_path / "zero3.json").write_text('{"zero_optimization": {"stage": 3}, "optimizer": {}}')
    words = ["--deepspeed", "zero3.json", "--bf16", "True", "--optim", "adamw_torch", "--use_cpu",
             "--gradient_checkpointing_kwargs", '{"use_reentrant": true}',
             "--save_steps", "5"]  # fmt: skip
    request = request_of(words, data=("a.jsonl",))
    run, reference, told = commands(trl, request, tmp_path)
    assert (run.get("optim"), run.get("bf16"), run.get("max_grad_norm")) == ("sgd", "False", "0")
    assert run.values("use_cpu") is run.values("save_steps") is None
    assert run.get("gradient_checkpointing_kwargs") == '{"use_reentrant": true}'
    config = json.loads(Path(run.get("deepspeed")).read_text())
    assert (config["gradient_clipping"], config.get("optimizer")) == (0, None)
    assert reference.get("deepspeed") is reference.get("gradient_checkpointing_kwargs") is None
    assert reference.get("gradient_checkpointing") == "False"
    assert reference.get("gradient_accumulation_steps") == "2"
    assert cpu_flags.HERE in run.get("output_dir")
    assert "plain SGD in float32, without clipping and dropout" in told.notes


def test_a_reference_of_two_ranks_looks_for_what_is_unused(request_of, tmp_path):
    request = request_of(["--deepspeed", '{"zero_optimization": {"stage": 3}}'], paired=True)
    run, reference, _ = commands(flagembedding, request, tmp_path)
    assert reference.get("ddp_find_unused_parameters") == "True"
    assert reference.get("gradient_accumulation_steps") == "1"
    assert reference.get("deepspeed") is None
    assert run.get("train_data") == reference.get("train_data")


def test_accelerates_options_come_as_its_launcher_sets_them(request_of, tmp_path):
    asked = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}
    _, _, told = commands(trl, request_of(data=("a.jsonl",), accelerate=asked), tmp_path)
    assert not [name for name in told.env if name.startswith("ACCELERATE")]  # nor its reference
    assert told.wrapper["ACCELERATE_USE_DEEPSPEED"] == "true"
    assert told.wrapper["ACCELERATE_DEEPSPEED_ZERO3_INIT"] == "true"
    config = json.loads(Path(told.wrapper["ACCELERATE_DEEPSPEED_CONFIG_FILE"]).read_text())
    assert config["zero_optimization"]["stage"] == 3


@pytest.mark.parametrize("module", [trl, llamafactory])
def test_its_own_numbers_keep_optimizer_and_dtype(module, request_of, tmp_path):
    config = {"zero_optimization": {"stage": 3}, "optimizer": {"type": "Adam"},
              "bf16": {"enabled": True}}  # fmt: skip
    words = ["--deepspeed", json.dumps(config), "--bf16", "True", "--optim", "adafactor",
             "--max_grad_norm", "0.5", "--dataset", "mine"]  # fmt: skip
    request = request_of(words, data=("a.jsonl",), accumulation=4)
    made = {**SMALL, "folder": str(tmp_path / "tiny")}
    single = training_rows.write(tmp_path / "rows-single.jsonl", [CHAT])
    module.commands(request, made, single, single, 2)
    told = module.own(request, made, training_rows.write(tmp_path / "rows-own.jsonl", [CHAT]), 1)
    argv = Argv(list(told.argv))
    assert (argv.get("optim"), argv.get("bf16"), argv.get("max_grad_norm")) == (
        "adafactor", "True", "0.5")  # fmt: skip
    assert (argv.get("max_steps"), argv.get("gradient_accumulation_steps")) == ("1", "4")
    kept = json.loads(Path(argv.get("deepspeed")).read_text())
    assert kept["optimizer"] == {"type": "Adam", "params": {"torch_adam": True}}
    assert kept["bf16"] == {"enabled": True}


@pytest.mark.parametrize("module", [trl, llamafactory, flagembedding])
def test_what_an_optimizer_or_schedule_may_not_go_without_is_kept_alone(
    module, request_of, tmp_path
):
    """cosine_with_min_lr refuses to begin without its kwargs, GaLore without its modules."""
    given = {"lr_scheduler_kwargs": '{"min_lr": 1e-7}', "optim_target_modules": "all-linear",
             "optim_args": "rank=4", "warmup_ratio": "0.1"}  # fmt: skip
    if module is llamafactory:
        given |= {"pure_bf16": "true", "use_galore": "true"}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    request = request_of(words, data=DATA[module], known=())
    run, _, _ = commands(module, request, tmp_path)
    assert all(run.values(name) is None for name in given)
    file = training_rows.write(tmp_path / "rows-own.jsonl", [CHAT])
    told = module.own(request, {**SMALL, "folder": str(tmp_path / "tiny")}, file, 1)
    argv = Argv(list(told.argv))
    assert {name: argv.get(name) for name in given} == given


GROUPS = ("num_generations", "generation_batch_size", "steps_per_generation", "num_iterations",
          "max_completion_length", "shuffle_dataset")  # fmt: skip


@pytest.mark.parametrize(("words", "prompts"), [
    ("--per_device_train_batch_size 4 --num_generations 8", 8 * 4 // 8),
    ("--per_device_train_batch_size 2 --steps_per_generation 6 --num_generations 4", 24),
    ("--generation_batch_size 64 --num_generations 2 --num_iterations 2", 32),
    ("--num_generations 5", 8 * 8 // 5),
])  # fmt: skip
def test_groups_of_completions_are_the_commands_own_alone(request_of, tmp_path, words, prompts):
    request = request_of(words.split(), row="prompt", data=("a.jsonl",), own_accumulation=1,
                         known=(*KNOWN, *GROUPS), blocks=True)  # fmt: skip
    kinds = [{"prompt": number} for number in range(3) for _ in range(request.world)]
    file = training_rows.write(tmp_path / "rows-own.jsonl", kinds)
    told = trl.own(request, {**SMALL, "folder": str(tmp_path)}, file, 2)
    argv = Argv(list(told.argv))
    given = Argv(words.split())
    for name in (*GROUPS[:4], "per_device_train_batch_size", "gradient_accumulation_steps"):
        assert argv.values(name) == given.values(name), name
    assert argv.get("max_completion_length") == "8"
    lines = (Path(argv.get("dataset_name")) / "train.jsonl").read_text().splitlines()
    asked = [json.loads(line)["prompt"] for line in lines]
    assert asked == [number for number in range(3) for _ in range(prompts)]
    assert told.unseen == (trl.REWARDS,)


def test_flagembeddings_own_numbers_are_kept(request_of, tmp_path):
    words = ["--bf16", "True", "--optim", "adafactor", "--max_grad_norm", "0.5",
             "--negatives_cross_device", "True", "--small_threshold", "1000"]  # fmt: skip
    request = request_of(words, entry="FlagEmbedding.finetune.embedder.encoder_only.base",
                         accumulation=4, batch=2)  # fmt: skip
    made = {**SMALL, "folder": str(tmp_path / "tiny")}
    file = tmp_path / "rows-own.jsonl"
    told = flagembedding.own(request, made, file, 2)
    argv = Argv(list(told.argv))
    assert (argv.get("optim"), argv.get("bf16"), argv.get("max_grad_norm")) == (
        "adafactor", "True", "0.5")  # fmt: skip
    assert argv.get("train_data") == str(file)
    assert argv.get("gradient_accumulation_steps") == "4"
    assert argv.values("small_threshold") is None, "of the user's whole data set"
    assert told.unseen == (flagembedding.NEGATIVES,)


@pytest.mark.parametrize(("world", "batch", "words", "entry", "told"), [
    (512, 8, "--negatives_cross_device True", "embedder", "0.5 GB in float32"),
    (512, 8, "--negatives_cross_device True", "reranker", ""),
    (512, 8, "", "embedder", ""),
    (512, 8, "--negatives_cross_device True --train_group_size 2", "embedder", ""),
    (64, 8, "--negatives_cross_device True", "embedder", ""),
])  # fmt: skip
def test_scores_of_all_ranks_negatives_are_no_larger_than_a_rank_may_hold(
    request_of, tmp_path, world, batch, words, entry, told
):
    request = request_of(words.split(), entry=f"FlagEmbedding.finetune.{entry}.x", world=world,
                         batch=batch)  # fmt: skip
    made = {**SMALL, "folder": str(tmp_path)}
    found = flagembedding.own(request, made, tmp_path / "rows-own.jsonl", 2)
    assert (told in found) if told else not isinstance(found, str)


def test_deepspeeds_own_buckets_shrink_with_the_model_too():
    zero = cpu_flags.small({"zero_optimization": {"stage": 3}}, 1000.0, Argv([]))
    assert zero["zero_optimization"]["reduce_bucket_size"] == 500000
    zero = cpu_flags.small({"zero_optimization": {"stage": 2}}, 1.0, Argv([]))
    assert zero == {"zero_optimization": {"stage": 2}}


@pytest.mark.parametrize(
    ("module", "given", "told"),
    [
        (trl, {"packing": True}, "--packing: rows are joined"),
        (trl, {"datasets": [{}]}, "--datasets: a mixture"),
        (llamafactory, {"stage": "ppo"}, "stage ppo"),
        (llamafactory, {"streaming": True}, "streaming: who gets which row"),
        (llamafactory, {"use_unsloth": True}, "use_unsloth: its kernels"),
        (llamafactory, {"sequence_parallel_size": 2}, "subgroups"),
    ],
)
def test_what_is_not_rehearsed_has_a_reason(module, given, told, tmp_path):
    values = Values(dict.fromkeys(given), dict(given))
    assert told in module.describe(values, "sft", Files(str(tmp_path))).obstacle


def test_a_script_of_the_users_own_is_named(tmp_path):
    told = trl.describe(Values({}), "file:/home/me/mine.py", Files(str(tmp_path)))
    assert told.obstacle.startswith("mine.py: a script of your own")
    assert trl.describe(Values({}), "trl.scripts.dpo", Files(str(tmp_path))).row == "pair"


def test_only_the_files_of_the_split_are_read(tmp_path):
    for name in ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet", "notes.txt"):
        (tmp_path / name).touch()
    found = trl._files(str(tmp_path), "train", Files("/"))
    assert found == [str(tmp_path / "train-00000-of-00001.parquet")]
    assert trl._files("trl-lib/Capybara", "train", Files("/nowhere")) == ["trl-lib/Capybara"]


@pytest.mark.parametrize("row", ["chat", "pair", "label", "prompt"])
def test_stand_in_rows_are_of_both_kinds_in_every_framework(request_of, tmp_path, row):
    made = stand_in_rows.stand_ins(tmp_path, ("image",), row)
    assert set(training_rows.of(trl.shaped(request_of(row=row), made)).by_kind) == {"image", "text"}
    if row != "prompt":
        shaped = llamafactory.shaped(request_of(row=row), made)
        assert set(training_rows.of(shaped).by_kind) == {"image", "text"}
        assert len({tuple(sorted(each)) for each in shaped}) == 1, "the same columns in each"


def test_rows_of_several_formats_are_written_alike():
    alpaca = {"file_name": "a.json"}
    sharegpt = {"file_name": "b.json", "formatting": "sharegpt", "columns": {"images": "images"}}
    assert not dataset_formats.one([alpaca, sharegpt])
    assert dataset_formats.one([alpaca, {"file_name": "c.json"}])
    given = [
        {"instruction": "add", "input": "1 2", "output": "3"},
        {"conversations": [{"from": "human", "value": "<image>?"}, {"from": "gpt", "value": "!"}],
         "images": ["a.png"]},
    ]  # fmt: skip
    (text, image), entry = dataset_formats.mixed(given, [alpaca, sharegpt])
    assert [each["content"] for each in text["messages"]] == ["add\n1 2", "3"]
    assert (text["images"], image["images"]) == ([], ["a.png"])
    assert [each["role"] for each in image["messages"]] == ["user", "assistant"]
    assert entry["columns"] == {"messages": "messages", "images": "images"}


def test_llamafactorys_data_keep_their_format_and_their_media_folder(request_of, tmp_path):
    info = {"mine": {"file_name": "mine.json", "formatting": "sharegpt", "num_samples": 3}}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_info.json").write_text(json.dumps(info))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    request = request_of(["--dataset", "mine", "--image_max_pixels", "900000"], data=("mine.json",))
    run, reference, _ = commands(llamafactory, request, scratch)
    kept = json.loads((scratch / "rows-single.data" / "dataset_info.json").read_text())
    assert kept == {"rehearsed": {"formatting": "sharegpt", "file_name": "rows.jsonl"}}
    assert (run.get("dataset"), run.get("media_dir")) == ("rehearsed", request.media_root)
    assert run.get("image_max_pixels") == str(cpu_flags.PIXELS)
    assert reference.get("disable_gradient_checkpointing") == "True"


LONG = {"messages": [{"role": "user", "content": "what?"}]}


@pytest.mark.parametrize(
    ("longest", "most", "limit"),
    [
        (0, 10**6, 1000),  # nothing is cut
        (4096, 10**6, 1000),  # its own 112 x 112 pixels fit
        (30, 10**6, 81065),  # they do not, and then nor do these
        (300, 5000, 1000),  # scaled down by the command itself they do
        (30, 500, 500),
    ],
)
def test_a_row_that_is_cut_at_its_own_size_stays_long_enough(tmp_path, longest, most, limit):
    pytest.importorskip("PIL")
    row = {**LONG, "images": [stand_in_rows.picture(tmp_path, n) for n in (1, 2)]}
    file = training_rows.write(tmp_path / "rows.jsonl", [LONG, row])
    assert cut.pixels(file, str(tmp_path), longest, most, 1000) == limit


def test_pixels_of_a_placeholder_are_the_processors(tmp_path):
    assert cut.each(tmp_path) == cut.USUAL
    (tmp_path / "preprocessor_config.json").write_text('{"patch_size": 16, "merge_size": 2}')
    assert cut.each(tmp_path) == 1024


def test_images_that_trl_would_cut_are_not_scaled_down(request_of, tmp_path):
    pytest.importorskip("PIL")
    source, tiny, scratch = tmp_path / "source", tmp_path / "tiny", tmp_path / "scratch"
    for folder in (source, tiny, scratch):
        folder.mkdir()
    (source / "preprocessor_config.json").write_text('{"max_pixels": 12845056}')
    (tiny / "preprocessor_config.json").write_text('{"max_pixels": 50176}')
    row = {**LONG, "images": [stand_in_rows.picture(tmp_path, n) for n in range(8)]}
    words = ["--max_length", "70"]
    request = request_of(words, data=("a.jsonl",), model=str(source), known=(*KNOWN, "max_length"))
    file = training_rows.write(scratch / "rows-single.jsonl", [row])
    trl.commands(request, {**SMALL, "folder": str(tiny)}, file, file, 2)
    told = json.loads((tiny / "preprocessor_config.json").read_text())
    assert told["max_pixels"] == 115561


@pytest.mark.parametrize("module", [trl, llamafactory])
def test_what_evaluates_does_so_once_on_rows_of_its_own(module, request_of, tmp_path):
    fields = dict.fromkeys(("eval_strategy", "eval_dataset", "dataset_name"))
    values = Values(fields, {"eval_strategy": "steps", "eval_dataset": "other"})
    assert module.describe(values, "sft", Files(str(tmp_path))).evaluates
    assert not module.describe(Values(fields, {}), "sft", Files(str(tmp_path))).evaluates
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rated = training_rows.write(tmp_path / "rows-evaluated.jsonl", [LONG])
    known = (*KNOWN, "eval_strategy", "eval_steps", "eval_dataset", "dataset_test_split")
    request = request_of(["--dataset", "mine", "--val_size", "0.1"], data=("a.jsonl",),
                         evaluates=True, known=known,
                         evaluated=(str(rated),))  # fmt: skip
    run, reference, _ = commands(module, request, scratch)
    for each in (run, reference):
        assert (each.get("eval_strategy"), each.get("eval_steps")) == ("steps", "2")
    written = {path.name: path.read_text() for path in scratch.rglob("*.jsonl")}
    name = "test.jsonl" if module is trl else "evaluated.jsonl"
    assert json.loads(written[name]) == LONG


def test_a_split_that_is_not_there_is_the_frameworks_own_error(request_of, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-0.parquet").touch()
    request = request_of(["--dataset_name", "data"], evaluates=True)
    assert trl._lacks_split(request)
    (tmp_path / "data" / "test-0.parquet").touch()
    assert not trl._lacks_split(request)
    assert not trl._lacks_split(request_of(["--dataset_name", "hub/name"], evaluates=True))


def test_what_only_deepspeeds_own_settings_change_of_the_numbers_is_left_out():
    told = {"zero_optimization": {"stage": 3, "zero_quantized_weights": True},
            "communication_data_type": "fp16", "wandb": {"enabled": True}, "steps_per_print": 5}
    argv = Argv([])
    config = cpu_flags.plain(cpu_flags.small(told, 1.0, argv))
    assert config["zero_optimization"] == {"stage": 3}
    assert not {"communication_data_type", "wandb"} & set(config)
    assert config["steps_per_print"] == 5
    assert argv.notes == ["DeepSpeed's quantised communication: not quantised"]
    told = {"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
    with pytest.raises(Unreadable, match="zero_hpz_partition_size 8: subgroups"):
        cpu_flags.small(told, 1.0, argv)


@pytest.mark.parametrize("module", [trl, llamafactory])
def test_ranks_that_count_their_own_tokens_are_compared_with_ranks(module, tmp_path):
    values = Values({}, {"average_tokens_across_devices": False})
    assert module.describe(values, "sft", Files(str(tmp_path))).paired
    assert not module.describe(Values({}, {}), "sft", Files(str(tmp_path))).paired


def test_pictures_in_a_table_become_files(tmp_path):
    given = [{"images": [{"bytes": b"abc", "path": "x.png"}]}, {"image": {"bytes": b"d"}}, {}]
    stand_in_rows.saved(given, tmp_path)
    [[first], second] = given[0]["images"], given[1]["image"]
    assert Path(first).read_bytes() == b"abc"
    assert Path(second).read_bytes() == b"d"


def test_a_processor_scales_to_few_pixels_but_keeps_the_length_of_an_edge(tmp_path):
    file = tmp_path / "preprocessor_config.json"
    file.write_text('{"max_pixels": 12845056, "size": {"longest_edge": 1540}}')
    cpu_flags.smaller(str(tmp_path), Argv([]))
    told = json.loads(file.read_text())
    assert told == {"max_pixels": cpu_flags.PIXELS, "size": {"longest_edge": 1540}}


def test_so_does_one_whose_parts_are_in_one_file(tmp_path):
    """As transformers 5 writes it. A video's limit is of all its frames together."""
    file = tmp_path / "processor_config.json"
    large = {"longest_edge": 16777216, "shortest_edge": 65536}
    slices = {"scale_resolution": 448, "max_slice_nums": 9}
    file.write_text(json.dumps({
        "image_processor": {"size": large, **slices}, "video_processor": {"size": large, **slices},
    }))  # fmt: skip
    argv = Argv([])
    cpu_flags.smaller(str(tmp_path), argv)
    told = json.loads(file.read_text())
    least = {"longest_edge": cpu_flags.PIXELS, "shortest_edge": cpu_flags.PIXELS}
    small = {"scale_resolution": 224, "max_slice_nums": 9}
    assert told["image_processor"] == {"size": least, **small}
    assert told["video_processor"] == {"size": large, **small}
    assert argv.notes == ["images of at most 50176 pixels"]


EVERYWHERE = {
    "--use_liger_kernel true": "--use_liger_kernel: Liger",
    "--torch_compile true": "--torch_compile: not compiled",
    "--resume_from_checkpoint x": "--resume_from_checkpoint: begins at step 0",
    "--neftune_noise_alpha 5": "--neftune_noise_alpha: left out",
    "--train_sampling_strategy group_by_length": "--train_sampling_strategy: rows come in",
    '--accelerator_config {"split_batches":true}': "--accelerator_config: batches are dealt",
    '--deepspeed {"zero_optimization":{"offload_param":{"device":"cpu"}}}':
        "offload_param: nothing is moved",
    "--optim adamw_torch": "plain SGD in float32",
}  # fmt: skip
SAID = {
    trl: {
        "--load_in_4bit true": "--load_in_4bit: weights are not quantised",
        "--use_vllm true": "--use_vllm: transformers generates",
        "--activation_offloading true": "--activation_offloading: nothing is moved",
        "--attn_implementation flash_attention_2": "--attn_implementation flash_attention_2: sdpa",
    },
    llamafactory: {
        "--adapter_name_or_path x": "--adapter_name_or_path: the adapter begins anew",
        "--ref_model x": "--ref_model: the same tiny model",
        "--quantization_bit 4": "--quantization_bit: weights are not quantised",
        "--enable_liger_kernel true": "--enable_liger_kernel: Liger",
        "--flash_attn fa2": "flash_attn fa2: sdpa",
        "--image_max_pixels 900000": "images of at most 50176 pixels, videos of 4 frames",
    },
    flagembedding: {
        "--from_peft x": "--from_peft: the adapter begins anew",
        "--use_flash_attn true": "--use_flash_attn: no flash attention",
    },
}


@pytest.mark.parametrize(
    ("module", "words", "note"),
    [(module, words, note) for module, own in SAID.items()
     for words, note in ((EVERYWHERE | own).items())],
    ids=lambda one: getattr(one, "NAME", str(one))[:30],
)  # fmt: skip
def test_what_is_replaced_is_told_and_only_that(module, words, note, request_of, tmp_path):
    name, value = words.split(" ", 1)
    request = request_of([name, value], data=DATA[module], known=())
    _, _, told = commands(module, request, tmp_path)
    assert [one for one in told.notes if one.startswith(note)], told.notes
    bare = tmp_path / "bare"
    bare.mkdir()
    request = request_of(data=DATA[module], known=(), scratch=str(bare))
    _, _, plain = commands(module, request, bare)
    usual = ("plain SGD", "images of at most")
    assert all(one.startswith(usual) for one in plain.notes), plain.notes


def test_groups_of_completions_are_told(request_of, tmp_path):
    _, _, told = commands(trl, request_of(row="prompt", data=("a.jsonl",)), tmp_path)
    assert any("groups of 2 completions of 8 tokens" in note for note in told.notes)

"""Runs as launchers, schedulers and loggers wrap them: each line gets what they put in front of it.

A run is a list of (rank, text) in the order of printing; a wrapper turns it into one log, or into
a folder of logs. The prefixes are those that the named programs print.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Callable

Run = list[tuple[int, str]]
OVER = "=" * 60


def run(error: str, rank: int = 1, marked: bool = True, peer: bool = True) -> Run:
    """Two ranks; ``rank`` raises ``error``, the other one loses its connection."""
    lines: Run = [
        (0, "[INFO:swift] rank: 0, local_rank: 0, world_size: 2, local_world_size: 2"),
        (1, "[INFO:swift] rank: 1, local_rank: 1, world_size: 2, local_world_size: 2"),
        (0, "[INFO:swift] args: SftArguments(output_dir='/out/v0', per_device_train_batch_size=4, gradient_accumulation_steps=2, deepspeed='zero2')"),
        (1, "UserWarning: None of the inputs have requires_grad=True. Gradients will be None"),
    ]
    for step in range(1, 13):
        lines.append((0, f"Train:   {step}%|▎         | {step}/100 [00:{step:02d}<02:30,  1.52s/it]"))
        if step % 4 == 0:
            lines.append((0, f"{{'loss': 0.{90 - step}, 'grad_norm': 1.{step}, 'learning_rate': 1e-05, 'epoch': 0.{step:02d}}}"))
    lines += traced(error, rank, marked)
    if peer:
        lines += traced("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4242", 1 - rank, marked)
    return lines


def traced(error: str, rank: int, marked: bool) -> Run:
    mark = f"[rank{rank}]: " if marked else ""
    return [
        (rank, mark + text)
        for text in (
            "Traceback (most recent call last):",
            '  File "/job/train.py", line 42, in <module>',
            "    main()",
            '  File "/env/lib/python3/site-packages/transformers/trainer.py", line 2245, in train',
            "    return inner_training_loop(",
            '  File "/env/lib/python3/site-packages/transformers/trainer.py", line 3736, in training_step',
            "    loss = self.compute_loss(model, inputs)",
            *error.split("\n"),
        )
    ]


def _each(prefix: Callable[[int, int], str]) -> Callable[[Run], str]:
    def wrap(lines: Run) -> str:
        return "".join(f"{prefix(rank, number)}{text}\n" for number, (rank, text) in enumerate(lines))

    return wrap


def _clock(number: int) -> str:
    return f"08:{number // 60:02d}:{number % 60:02d}"


def _summary(rank: int, code: int = 1) -> str:
    return (
        f"E0112 09:14:15.000 99 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: {rank} (pid: 4242) of binary: /usr/bin/python3\n"
        f"{OVER}\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-01-12_09:14:14\n  host      : gpu-node-17\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 4242)\n  error_file: <N/A>\n{OVER}\n"
    )


def _bars(lines: Run) -> str:
    """A bar has no line feed: what comes next stands behind it."""
    return "".join(f"\r{text}" if "%|" in text else f"{text}\n" for _, text in lines) + _summary(1)


def _narrow(lines: Run) -> str:
    """A terminal of 100 columns, as tmux copies it."""
    cut = [text[k : k + 100] for _, text in lines for k in range(0, max(len(text), 1), 100)]
    return "".join(f"{text:<100}\n" for text in cut)


def _ray(lines: Run) -> str:
    said = "".join(f"\x1b[36m(WorkerDict pid={4242 + rank}, ip=10.0.0.{rank})\x1b[0m {text}\n" for rank, text in lines)
    error = next(text.split("]: ")[-1] for _, text in lines if "Error:" in text)
    return (
        f"{said}Error executing job with overrides: ['trainer.n_gpus_per_node=2']\nTraceback (most recent call last):\n"
        '  File "/verl/trainer/main_ppo.py", line 64, in main\n    run_ppo(config)\n'
        f"ray.exceptions.RayTaskError({error.split(':')[0].rpartition('.')[2]}): \x1b[36mray::TaskRunner.run()\x1b[39m (pid=99, ip=10.0.0.1)\n"
        f'  File "/verl/trainer/ppo/ray_trainer.py", line 981, in fit\n    output = ray.get(output)\n{error}\n'
    )


def _loguru(lines: Run) -> str:
    out = []
    for number, (rank, text) in enumerate(lines):
        if text.startswith("Traceback"):
            out.append(f"2026-01-12 {_clock(number)}.123 | ERROR    | __main__:<module>:42 - An error has been caught in function '<module>', process 'MainProcess' ({4242 + rank}), thread 'MainThread' (140):")
            out.append(text)
        elif text.startswith('  File "/job'):
            out += ["", f"> {text.strip()}", "    └ <function main at 0x7f1b8c0d0d30>"]
        elif text.startswith(("  File", "    ")) or "Error" in text.split(":")[0] or not text.startswith(("[INFO", "Train", "{")):
            out.append(text)
        else:
            out.append(f"2026-01-12 {_clock(number)}.123 | INFO     | __main__:log:17 - {text}")
    return "\n".join(out) + "\n"


def _json(entry: Callable[[int, int, str], dict[str, object]]) -> Callable[[Run], str]:
    def wrap(lines: Run) -> str:
        said = (entry(rank, number, text) for number, (rank, text) in enumerate(lines))
        return "".join(json.dumps(one, ensure_ascii=number % 2 == 0) + "\n" for number, one in enumerate(said))

    return wrap


def _formatter(lines: Run) -> str:
    """python-json-logger: one object a record, an exception's text in a field of its own."""
    out = []
    for rank in (0, 1):
        failed = next(n for n, (r, text) in enumerate(lines) if (r == rank and "Traceback" in text) or n == len(lines) - 1)
        for _, text in (one for one in lines[:failed] if one[0] == rank and "Traceback" not in one[1] and "rank1]" not in one[1]):
            out.append(json.dumps({"levelname": "INFO", "name": "train", "message": text}))
        said = [text for r, text in lines[failed:] if r == rank]
        if not any("Traceback" in text for text in said):
            out += [json.dumps({"levelname": "INFO", "message": text}) for text in said]
            continue
        out.append(json.dumps({"levelname": "ERROR", "name": "train", "message": "training failed", "exc_info": "\n".join(said)}))
    return "\n".join(out) + "\n"


def _flattened(lines: Run) -> str:
    """A collector that writes each traceback on one line, its ends as backslash and n."""
    out: list[str] = []
    for rank, text in lines:
        fresh = "Traceback" in text or not out or "Traceback" not in out[-1]
        if fresh:
            out.append(f'ts=2026-01-12 level=error rank={rank} msg="{text}' if "Traceback" in text else text)
        else:
            out[-1] += "\\n" + text.replace('"', '\\"')
    return "\n".join(out) + "\n"


ONE: dict[str, Callable[[Run], str]] = {
    "plain": _each(lambda rank, n: ""),
    "srun --label": _each(lambda rank, n: f"{rank}: "),
    "deepspeed": lambda lines: _each(lambda rank, n: "")(lines) + "[2026-01-12 09:14:14,879] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4242\n[2026-01-12 09:14:15,885] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = 1\n",
    "accelerate": lambda lines: _each(lambda rank, n: "")(lines) + 'Traceback (most recent call last):\n  File "/env/bin/accelerate", line 8, in <module>\n    sys.exit(main())\nsubprocess.CalledProcessError: Command \'[\'/usr/bin/python3\', \'train.py\']\' returned non-zero exit status 1.\n',
    "torchrun": lambda lines: _each(lambda rank, n: "")(lines) + _summary(1),
    "torchrun --tee": _each(lambda rank, n: f"[default{rank}]:"),
    "kubectl --timestamps": _each(lambda rank, n: f"2026-01-12T{_clock(n)}.123456789Z "),
    "kubectl --prefix": _each(lambda rank, n: f"[pod/train-{rank}/trainer] "),
    "docker compose": _each(lambda rank, n: f"trainer-{rank}  | "),
    "journalctl": _each(lambda rank, n: f"Jan 12 {_clock(n)} gpu-node-17 python3[{4242 + rank}]: "),
    "actions": _each(lambda rank, n: f"2026-01-12T{_clock(n)}.1234567Z "),
    "mpirun": _each(lambda rank, n: f"[1,{rank}]<stderr>:"),
    "sagemaker": _each(lambda rank, n: f"[1,mpirank:{rank},algo-1]<stderr>:"),
    "pdsh": _each(lambda rank, n: f"node{rank + 1}: "),
    "pdsh, addresses": _each(lambda rank, n: f"10.0.0.{rank + 5}: "),
    "ray": _ray,
    "kaggle": _each(lambda rank, n: f"{n * 1.5:.1f}s\t{n}\t"),
    "bars": _bars,
    "tmux": _narrow,
    "loguru": _loguru,
    "windows": lambda lines: _each(lambda rank, n: "")(lines).replace("\n", "\r\n"),
    "numbered": _each(lambda rank, n: f"[{80000 + n}] "),
    "quoted": _each(lambda rank, n: "> "),
    "docker's JSON": _json(lambda rank, n, text: {"log": text + "\n", "stream": "stderr", "time": f"2026-01-12T{_clock(n)}.123456789Z"}),
    "fluent-bit": _json(lambda rank, n, text: {"time": f"2026-01-12T{_clock(n)}.123Z", "log": text, "kubernetes": {"pod_name": f"train-{rank}"}}),
    "cloud logging": _json(lambda rank, n, text: {"severity": "ERROR", "jsonPayload": {"message": text, "pid": 4242 + rank}, "timestamp": f"2026-01-12T{_clock(n)}Z"}),
    "python-json-logger": _formatter,
    "flattened": _flattened,
}
TELLS_RANK = {"srun --label", "torchrun", "torchrun --tee", "mpirun", "sagemaker", "bars"}  # without torch's own mark

ERRORS = {
    "VG512": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.19 GiB is free. Including non-PyTorch memory, this process has 77.95 GiB memory in use.",
    "VG501": "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function. Please make sure model parameters are not shared across multiple concurrent forward-backward passes.\nParameter at index 129 with name base_model.model.v_proj.lora_B.default.weight has been marked as ready twice.",
    "VG506": "ValueError: Image features and image tokens do not match: tokens: 2456, features 3360",
    "VG504": "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.\ntensor at position 2:\nsaved metadata: {'shape': torch.Size([128]), 'dtype': torch.bfloat16, 'device': device(type='cuda', index=1)}",
    "VG535": "OSError: [Errno 28] No space left on device: '/out/checkpoint-10/optimizer.pt'",
    "unknown": "KeyError: 'bounding_boxes'",
}

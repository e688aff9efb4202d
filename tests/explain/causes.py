"""Failures that a CPU can cause: name → (code of the catalogue, ranks, starting rank, script).

Each script is complete; with two ranks it runs under torchrun on gloo. `make_logs.py` runs them.
Other frameworks, strategies and releases that cause the same class are other entries.
"""

# ruff: noqa: E501
from __future__ import annotations

START = """
import os, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo"); rank = dist.get_rank()
torch.manual_seed(0)
"""
BLOCKS = """
from torch.utils.checkpoint import checkpoint
class Net(nn.Module):
    def __init__(self, again=False):
        super().__init__(); self.a = nn.Linear(4, 4); self.b = nn.Linear(4, 4); self.visual = nn.Linear(4, 4)
        self.again = again
    def forward(self, x, image=True, reentrant=True):
        x = x.requires_grad_()
        if image: x = self.visual(x)
        x = checkpoint(self.a, x, use_reentrant=reentrant)
        if self.again: x = checkpoint(self.a, x, use_reentrant=reentrant)
        return checkpoint(self.b, x, use_reentrant=reentrant).sum()
"""
DDP = START + BLOCKS + "ddp = nn.parallel.DistributedDataParallel\n"
ZERO = """
import os, torch, deepspeed
from torch import nn
deepspeed.init_distributed("gloo"); rank = torch.distributed.get_rank()
config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.0, "zero_allow_untested_optimizer": True,
          "zero_force_ds_cpu_optimizer": False, "zero_optimization": {"stage": STAGE}}
""" + BLOCKS + """
net = Net(again=AGAIN); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer, config=config)
"""


VISION = """
import torch
library = torch.library.Library("torchvision", "FRAGMENT")  # for a torchvision without its binary
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def zero(stage: int, body: str, again: bool = False) -> str:
    return ZERO.replace("STAGE", str(stage)).replace("AGAIN", str(again)) + body


CAUSES: dict[str, tuple[str, int, int | None, str]] = {
    # DDP
    "ready_once_find_unused": ("VG501", 2, None, DDP + """
net = ddp(Net(), find_unused_parameters=True)
net(torch.ones(2, 4)).backward()
"""),
    "ready_once_shared_block": ("VG501", 2, None, DDP + """
net = ddp(Net(again=True))
net(torch.ones(2, 4)).backward()
"""),
    "ready_once_two_forwards": ("VG501", 2, None, DDP + """
net = ddp(Net())
(net(torch.ones(2, 4)) + net(torch.zeros(2, 4))).backward()
"""),
    "unfinished_text_only": ("VG503", 2, None, DDP + """
net = ddp(Net())
for _ in range(2): net(torch.ones(2, 4), image=False, reentrant=False).backward()
"""),
    "unfinished_unused_head": ("VG503", 2, None, START + """
class Net(nn.Module):
    def __init__(self): super().__init__(); self.body = nn.Linear(4, 4); self.head = nn.Linear(4, 4)
    def forward(self, x): return self.body(x).sum()
net = nn.parallel.DistributedDataParallel(Net())
for _ in range(2): net(torch.ones(2, 4)).backward()
"""),
    "unfinished_one_rank": ("VG503", 2, None, START + """
class Net(nn.Module):
    def __init__(self): super().__init__(); self.body = nn.Linear(4, 4); self.vision_tower = nn.Linear(4, 4)
    def forward(self, x, image): return (self.vision_tower(x) if image else self.body(x)).sum()
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
net = nn.parallel.DistributedDataParallel(Net())
for _ in range(2): net(torch.ones(2, 4), rank == 0).backward()
"""),
    "mismatch_detail": ("VG505", 2, None, """
import os; os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
""" + START + """
if rank == 0: dist.all_reduce(torch.ones(4))
else: dist.broadcast(torch.ones(4), 0)
"""),
    "mismatch_sizes": ("VG505", 2, None, """
import os; os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
""" + START + """
dist.all_reduce(torch.ones(4 if rank else 8))
"""),
    "mismatch_barrier": ("VG505", 2, None, START + """
from datetime import timedelta
import time
if rank == 0: dist.monitored_barrier(timeout=timedelta(seconds=2))
else: time.sleep(6)
"""),
    "gloo_timeout": ("VG505", 2, None, """
import os, torch, torch.distributed as dist, time
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=3)); rank = dist.get_rank()
if rank == 0: dist.all_reduce(torch.ones(4))
else: time.sleep(8)
"""),
    "peer_type_error": ("", 2, 1, START + """
import time
if rank == 1:
    time.sleep(1)
    len(5)
for _ in range(1000): dist.all_reduce(torch.ones(1000))
"""),
    "no_grad_frozen": ("VG507", 1, None, """
import torch
from torch import nn
net = nn.Linear(4, 4).requires_grad_(False)
net(torch.ones(2, 4)).sum().backward()
"""),
    "no_grad_reentrant": ("VG507", 2, None, DDP + """
class Frozen(Net):
    def forward(self, x): return checkpoint(self.b, checkpoint(self.a, x, use_reentrant=True), use_reentrant=True).sum()
net = Frozen(); net.a.requires_grad_(False)
net(torch.ones(2, 4)).backward()
"""),
    "static_accumulation": ("VG514", 2, None, DDP + """
net = ddp(Net(), static_graph=True)
for step in range(2):
    with net.no_sync(): net(torch.ones(2, 4)).backward()
    net(torch.ones(2, 4)).backward()
"""),
    "static_changes": ("VG514", 2, None, DDP + """
net = ddp(Net(), static_graph=True)
for step in range(3): net(torch.ones(2, 4), image=step == 0, reentrant=False).backward()
"""),
    "ranks_differ_number": ("VG561", 2, None, START + """
net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(1 + rank)])
nn.parallel.DistributedDataParallel(net)
"""),
    "ranks_differ_shape": ("VG561", 2, None, START + """
nn.parallel.DistributedDataParallel(nn.Linear(4, 4 + rank))
"""),
    # DeepSpeed
    "reduced_zero2_two_forwards": ("VG502", 2, None, zero(2, """
engine.backward(engine(torch.ones(2, 4)) + engine(torch.zeros(2, 4)))
""")),
    "no_sync_zero2": ("VG513", 2, None, zero(2, """
with engine.no_sync(): engine.backward(engine(torch.ones(2, 4)))
""")),
    "no_sync_zero3": ("VG513", 2, None, zero(3, """
with engine.no_sync(): engine.backward(engine(torch.ones(2, 4)))
""")),
    "no_grad_zero2": ("VG507", 2, None, zero(2, """
engine.backward(engine(torch.ones(2, 4)).detach())
""")),
    "batch_sizes": ("VG547", 2, None, zero(2, "").replace('"gradient_clipping"', '"train_batch_size": 16, "gradient_accumulation_steps": 1, "gradient_clipping"')),
    "batch_sizes_auto": ("VG547", 2, None, zero(2, "").replace('"train_micro_batch_size_per_gpu": 1', '"train_batch_size": "auto"')),
    "not_gathered_zero3": ("VG523", 2, None, zero(3, """
torch.nn.functional.linear(torch.ones(2, 4), engine.module.a.weight).sum().backward()
""")),
    "not_gathered_embedding": ("VG523", 1, None, """
import torch
torch.nn.functional.embedding(torch.tensor([1]), torch.empty(0))
"""),
    "uniform_grad": ("VG519", 2, None, START + """
from torch.distributed.fsdp import FullyShardedDataParallel
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)); net[0].requires_grad_(False)
FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=False)
"""),
    # torch
    "graph_twice": ("VG528", 1, None, """
import torch
x = (torch.ones(2, requires_grad=True) ** 2).sum(); x.backward(); x.backward()
"""),
    "in_place": ("VG528", 1, None, """
import torch
w = torch.ones(4, requires_grad=True); e = w.exp(); e[0] = 5.0; e.sum().backward()
"""),
    "in_place_leaf": ("VG528", 1, None, """
import torch
w = torch.ones(4, 4, requires_grad=True); w[0].copy_(torch.zeros(4))
"""),
    "dtypes_linear": ("VG526", 1, None, """
import torch
torch.nn.Linear(4, 4).to(torch.bfloat16)(torch.ones(2, 4))
"""),
    "dtypes_conv": ("VG526", 1, None, """
import torch
torch.nn.Conv2d(3, 3, 1).to(torch.bfloat16)(torch.ones(1, 3, 4, 4))
"""),
    "dtypes_scatter": ("VG526", 1, None, """
import torch
torch.ones(4, dtype=torch.bfloat16).masked_scatter(torch.ones(4, dtype=torch.bool), torch.ones(4))
"""),
    "index_embedding": ("VG545", 1, None, """
import torch
torch.nn.Embedding(10, 4)(torch.tensor([151655]))
"""),
    "index_labels": ("VG545", 1, None, """
import torch
torch.nn.functional.nll_loss(torch.randn(2, 3), torch.tensor([0, 7]))
"""),
    "state_keys": ("VG522", 1, None, """
import torch
torch.nn.Linear(4, 4).load_state_dict({"visual.weight": torch.ones(4, 4)})
"""),
    "state_shapes": ("VG522", 1, None, """
import torch
torch.nn.Linear(8, 8).load_state_dict(torch.nn.Linear(4, 4).state_dict())
"""),
    "state_empty": ("VG522", 1, None, """
import torch
torch.nn.Linear(4, 4).load_state_dict({"weight": torch.empty(0), "bias": torch.ones(4)})
"""),
    "resume_groups": ("VG550", 1, None, """
import torch
a, b = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
torch.optim.SGD(b.parameters(), 0.1).load_state_dict(torch.optim.SGD(a.parameters(), 0.1).state_dict())
"""),
    "resume_weights_only": ("VG550", 1, None, """
import torch, numpy, io
class Arguments: pass
file = io.BytesIO(); torch.save({"rng": Arguments()}, file); file.seek(0); torch.load(file)
"""),
    "cut_torch": ("VG541", 1, None, """
import torch, io
file = io.BytesIO(); torch.save(torch.ones(1000), file); torch.load(io.BytesIO(file.getvalue()[:900]))
"""),
    "cut_pickle": ("VG541", 1, None, """
import torch, tempfile, os
path = os.path.join(tempfile.mkdtemp(), "optimizer.bin"); open(path, "wb").close(); torch.load(path, weights_only=False)
"""),
    "cut_safetensors": ("VG541", 1, None, """
import torch, tempfile, os
from safetensors.torch import save_file, load_file
path = os.path.join(tempfile.mkdtemp(), "model.safetensors"); save_file({"a": torch.ones(1000)}, path)
data = open(path, "rb").read(); open(path, "wb").write(data[:2000]); load_file(path)
"""),
    "pointer_safetensors": ("VG541", 1, None, """
import tempfile, os
from safetensors.torch import load_file
path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
open(path, "w").write("version https://git-lfs.github.com/spec/v1\\noid sha256:aa\\nsize 4988025760\\n"); load_file(path)
"""),
    "tied": ("VG546", 1, None, """
import torch, tempfile, os
from safetensors.torch import save_file
a = torch.ones(4); save_file({"lm_head.weight": a, "embed_tokens.weight": a}, os.path.join(tempfile.mkdtemp(), "x.safetensors"))
"""),
    "disk_full_torch": ("VG535", 1, None, """
import torch
torch.save(torch.ones(1000000), "/dev/full")
"""),
    "disk_full_text": ("VG535", 1, None, """
with open("/dev/full", "w") as file: file.write("x" * 100000)
"""),
    "host_memory": ("VG532", 1, None, """
import torch
torch.empty(2**50)
"""),
    "host_memory_killed": ("VG532", 2, 1, START + """
import signal, time
if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
time.sleep(30)
"""),
    "segfault": ("VG558", 2, 1, START + """
import ctypes, time
if rank == 1: ctypes.string_at(0)
time.sleep(30)
"""),
    "segfault_handler": ("VG558", 1, None, """
import ctypes, faulthandler
faulthandler.enable(); ctypes.string_at(0)
"""),
    "ended": ("VG569", 2, None, """
import os, signal, time, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 0: os.kill(os.getppid(), signal.SIGTERM)
time.sleep(30)
"""),
    "interrupted": ("VG569", 1, None, """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
import time; time.sleep(5)
"""),
    "port": ("VG542", 1, None, """
import socket, os, torch.distributed as dist
taken = socket.socket(); taken.bind(("127.0.0.1", 0)); taken.listen()
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(taken.getsockname()[1]), RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo")
"""),
    "late_rank": ("VG517", 1, None, """
import os, torch.distributed as dist
from datetime import timedelta
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29777", RANK="0", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=timedelta(seconds=3))
"""),
    "interface": ("VG536", 1, None, """
import os, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29778", RANK="0", WORLD_SIZE="1", GLOO_SOCKET_IFNAME="eth9")
dist.init_process_group("gloo")
"""),
    "no_cuda": ("VG537", 1, None, """
import torch
torch.nn.Linear(4, 4).cuda()
"""),
    "worker_killed": ("VG544", 1, None, """
import os, signal, torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): os.kill(os.getpid(), signal.SIGKILL)
for _ in DataLoader(Rows(), num_workers=2): pass
"""),
    "worker_bus": ("VG543", 1, None, """
import os, signal, torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): os.kill(os.getpid(), signal.SIGBUS)
for _ in DataLoader(Rows(), num_workers=2): pass
"""),
    "worker_raises": ("VG555", 1, None, """
from torch.utils.data import DataLoader, Dataset
from PIL import Image
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return Image.open("/data/images/0001.jpg")
for _ in DataLoader(Rows(), num_workers=1): pass
"""),
    "shm_files": ("VG543", 1, None, """
import resource, torch
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
kept = [torch.ones(4).share_memory_() for _ in range(100)]
"""),
    "missing_library": ("VG538", 1, None, """
import ctypes
ctypes.CDLL("libcudart.so.12")
"""),
    "undefined_symbol": ("VG538", 1, None, """
import os, subprocess, sys, sysconfig, tempfile
folder = tempfile.mkdtemp()
open(folder + "/x.c", "w").write("void _ZN3c104cuda9SetDeviceEi(int); void *PyInit_flash_attn_2_cuda(void) { _ZN3c104cuda9SetDeviceEi(0); return 0; }")
subprocess.check_call(["gcc", "-shared", "-fPIC", "-o", folder + "/flash_attn_2_cuda.so", folder + "/x.c"])
sys.setdlopenflags(os.RTLD_NOW); sys.path.insert(0, folder)
import flash_attn_2_cuda
"""),
    # data, arguments, hub
    "image_cut": ("VG555", 1, None, """
import io
from PIL import Image
file = io.BytesIO(); Image.new("RGB", (64, 64), "red").save(file, "PNG"); Image.open(io.BytesIO(file.getvalue()[:100])).load()
"""),
    "image_none": ("VG555", 1, None, """
import io
from PIL import Image
Image.open(io.BytesIO(b"<html>not found</html>"))
"""),
    "json_broken": ("VG554", 1, None, """
import json
json.loads('{"messages": [{"role": "user" "content": "x"}]}')
"""),
    "arguments_argparse": ("VG553", 1, None, """
import argparse
argparse.ArgumentParser(prog="train.py").parse_args(["--train_type", "lora"])
"""),
    "module_missing": ("VG552", 1, None, "import qwen_vl_utils_that_is_not_there\n"),
    "name_missing": ("VG552", 1, None, "from transformers.modeling_utils import shard_checkpoint\n"),
    "arguments_hf": ("VG553", 1, None, """
from transformers import HfArgumentParser, TrainingArguments
HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(["--output_dir", "x", "--evaluation_strategy", "no"])
"""),
    "bf16": ("VG529", 1, None, """
import os
from transformers import TrainingArguments
TrainingArguments("x", bf16=True)
"""),
    "offline": ("VG540", 1, None, """
import os; os.environ["HF_HUB_OFFLINE"] = "1"; os.environ["HF_HOME"] = "/tmp/empty-hub"
from transformers import AutoConfig
AutoConfig.from_pretrained("Qwen/Qwen2.5-VL-7B-Instruct")
"""),
    "model_type": ("VG556", 1, None, """
import json, tempfile
from transformers import AutoConfig
folder = tempfile.mkdtemp(); json.dump({"model_type": "qwen9_vl"}, open(folder + "/config.json", "w")); AutoConfig.from_pretrained(folder)
"""),
    "model_none": ("VG556", 1, None, """
import json, tempfile
from transformers import AutoConfig
folder = tempfile.mkdtemp(); json.dump({}, open(folder + "/config.json", "w")); AutoConfig.from_pretrained(folder)
"""),
    "features_tokens": ("VG506", 1, None, """
import torch
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration
text = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, vocab_size=200,
            rope_scaling={"type": "mrope", "mrope_section": [1, 1, 2], "rope_type": "default"})
vision = dict(depth=1, embed_dim=32, hidden_size=32, num_heads=2, patch_size=14)
config = Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=151, vision_start_token_id=150)
net = Qwen2VLForConditionalGeneration(config)
ids = torch.tensor([[150, 151, 151, 151, 5]])
net(input_ids=ids, mm_token_type_ids=(ids == 151).int(), pixel_values=torch.ones(16, 1176), image_grid_thw=torch.tensor([[1, 4, 4]]))
"""),
    "target_modules": ("VG525", 1, None, """
import torch
from peft import LoraConfig, get_peft_model
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.a = torch.nn.Linear(4, 4)
get_peft_model(Net(), LoraConfig(target_modules=["q_proj_x"]))
"""),
    "flash_attention": ("VG548", 1, None, """
from transformers import Qwen2Config, AutoModelForCausalLM
AutoModelForCausalLM.from_config(Qwen2Config(hidden_size=32, num_hidden_layers=1), attn_implementation="flash_attention_2")
"""),
    "resume_folder": ("VG550", 1, None, """
import torch
from transformers import Trainer, TrainingArguments
Trainer(torch.nn.Linear(4, 4), TrainingArguments("/tmp/none", use_cpu=True), train_dataset=[1]).train(resume_from_checkpoint="/out/checkpoint-500")
"""),
    "trainer_tokenizer": ("VG595", 1, None, """
import torch
from transformers import Trainer, TrainingArguments
Trainer(torch.nn.Linear(4, 4), TrainingArguments("/tmp/none", use_cpu=True), tokenizer=None)
"""),
    "op_build": ("VG557", 1, None, """
import os; os.environ.pop("CUDA_HOME", None)
from deepspeed.ops.op_builder import builder
builder.installed_cuda_version()
"""),
    "unscale": ("VG520", 1, None, """
import torch
w = torch.nn.Parameter(torch.ones(4, dtype=torch.float16)); optimizer = torch.optim.SGD([w], 0.1)
scaler = torch.amp.GradScaler("cpu"); scaler.scale((w * 2).sum()).backward(); scaler.unscale_(optimizer)
"""),
    "recomputed": ("VG504", 1, None, """
import torch
from torch.utils.checkpoint import checkpoint
calls = []
def block(x):
    calls.append(1)
    return (x[: len(calls)] * x[: len(calls)]).sum()
checkpoint(block, torch.ones(4, requires_grad=True), use_reentrant=False).backward()
"""),
    "lock": ("VG567", 1, None, """
import filelock, tempfile, os
path = os.path.join(tempfile.mkdtemp(), "model.lock")
a, b = filelock.FileLock(path), filelock.FileLock(path, is_singleton=False); a.acquire(); b.acquire(timeout=1)
"""),
    "unknown": ("", 2, 1, START + """
class StrangeError(Exception): pass
if rank == 1: raise StrangeError("the hamster left the wheel")
dist.barrier()
"""),
}

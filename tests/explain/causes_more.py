"""More causes of the same failures: other frameworks, releases and strategies.

name → (environment, code of the catalogue, ranks, starting rank, script). The codes were written before
any of these logs was looked at. `warm_logs.py` runs them, in the environments of tests/kit/envs.py:
swift (ms-swift 4.6, transformers 5.19), swift32 (3.2, 4.49), trl (1.16, 5.23), llamafactory (0.9.5, 5.6),
flagembedding (1.4.2, 4.51), colossalai (0.5, 4.51).
"""

# ruff: noqa: E501
from __future__ import annotations

from causes import DDP, START, zero

LLM = """
import torch, transformers
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments
config = Qwen2Config(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, vocab_size=200)
model = Qwen2ForCausalLM(config)
rows = [dict(input_ids=[1, 2, 3, 4], labels=[1, 2, 3, 4], attention_mask=[1] * 4)] * 8
def train(more=None, model=model, rows=rows, **words):
    words = {"output_dir": "out", "report_to": [], "use_cpu": True, "max_steps": 2, "per_device_train_batch_size": 1, **words}
    return Trainer(model, TrainingArguments(**words), train_dataset=rows, **(more or {})).train()
"""
VLM = """
import torch
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration
text = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, vocab_size=200,
            rope_scaling={"type": "mrope", "mrope_section": [1, 1, 2], "rope_type": "default"})
vision = dict(depth=1, embed_dim=32, hidden_size=32, num_heads=2, patch_size=14)
"""
HUB = """
import os, threading, http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(STATUS); self.send_header("X-Error-Code", "CODE"); self.send_header("X-Error-Message", "MESSAGE")
        self.send_header("Content-Length", "0"); self.end_headers()
    do_HEAD = do_GET
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer); threading.Thread(target=server.serve_forever, daemon=True).start()
import huggingface_hub.constants as c
import huggingface_hub, tempfile
end = f"http://127.0.0.1:{server.server_address[1]}"
huggingface_hub.constants.HF_HUB_OFFLINE = False
os.environ["HF_HUB_CACHE"] = tempfile.mkdtemp()
"""


def hub(status: int, code: str, message: str, body: str) -> str:
    return HUB.replace("STATUS", str(status)).replace("CODE", code).replace("MESSAGE", message) + body


DOWNLOAD = "huggingface_hub.hf_hub_download('google/gemma-3-4b-it', 'config.json', endpoint=end, cache_dir=tempfile.mkdtemp())\n"
FSDP = START + """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
cpu = torch.device("cpu")
"""
LOADER = """
import os, signal, time, torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        BODY
"""


def loader(body: str, words: str = "num_workers=2") -> str:
    return LOADER.replace("BODY", body) + f"for _ in DataLoader(Rows(), {words}): pass\n"


More = tuple[str, str, int, int | None, str]
MORE: dict[str, More] = {
    # one parameter's gradient twice
    "ddp_lora_reentrant": ("swift", "VG501", 2, None, START + LLM + """
from peft import LoraConfig, get_peft_model
net = get_peft_model(model, LoraConfig(target_modules=["q_proj"])); net.enable_input_require_grads()
net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True}); net.train()
net = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
ids = torch.ones(1, 4, dtype=torch.long); net(input_ids=ids, labels=ids).loss.backward()
"""),
    "ddp_dpo_two_forwards": ("llamafactory", "VG501", 2, None, START + LLM + """
model.enable_input_require_grads(); model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True}); model.train()
net = nn.parallel.DistributedDataParallel(model)
ids = torch.ones(1, 4, dtype=torch.long); (net(input_ids=ids, labels=ids).loss - net(input_ids=ids + 1, labels=ids).loss).backward()
"""),
    "zero2_shared_block": ("swift", "VG502", 2, None, zero(2, "engine.backward(engine(torch.ones(2, 4)))\n", again=True)),
    # recomputed
    "recomputed_number": ("swift", "VG504", 1, None, """
import torch
from torch.utils.checkpoint import checkpoint
calls = []
def block(x):
    calls.append(1)
    return x.exp() if len(calls) > 1 else (x.exp() * x.sin()).cos()
checkpoint(block, torch.ones(4, requires_grad=True), use_reentrant=False).sum().backward()
"""),
    "recomputed_dtype": ("swift", "VG504", 1, None, """
import torch
from torch.utils.checkpoint import checkpoint
calls = []
def block(x):
    calls.append(1)
    return (x.to(torch.float64 if len(calls) > 1 else torch.float32) ** 2).sum()
checkpoint(block, torch.ones(4, requires_grad=True), use_reentrant=False).backward()
"""),
    # features and tokens
    "features_qwen3vl": ("trl", "VG506", 1, None, """
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
t = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, vocab_size=200, head_dim=8, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]})
c = Qwen3VLConfig(text_config=t, vision_config=dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=32, deepstack_visual_indexes=[0], num_position_embeddings=16), image_token_id=151, vision_start_token_id=150)
ids = torch.tensor([[150, 151, 5]])
Qwen3VLForConditionalGeneration(c)(input_ids=ids, mm_token_type_ids=(ids == 151).int(), pixel_values=torch.ones(16, 3 * 2 * 16 * 16), image_grid_thw=torch.tensor([[1, 4, 4]]))
"""),
    # no gradient
    "no_grad_trainer": ("trl", "VG507", 1, None, LLM + "model.requires_grad_(False); train()\n"),
    # no_sync
    "no_sync_accelerate": ("swift", "VG513", 2, None, """
import torch
from accelerate import Accelerator, DeepSpeedPlugin
a = Accelerator(cpu=True, deepspeed_plugin=DeepSpeedPlugin(zero_stage=2, gradient_accumulation_steps=2))
import deepspeed
net = torch.nn.Linear(4, 4)
engine, *_ = deepspeed.initialize(model=net, optimizer=torch.optim.SGD(net.parameters(), 0.1), config={"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.0, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "zero_optimization": {"stage": 2}})
with engine.no_sync(): engine.backward(engine(torch.ones(2, 4)).sum())
"""),
    # static graph
    "static_accelerate": ("trl", "VG514", 2, None, """
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
a = Accelerator(cpu=True, gradient_accumulation_steps=2, kwargs_handlers=[DistributedDataParallelKwargs(static_graph=True)])
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)); net = a.prepare(net)
for _ in range(6):
    with a.accumulate(net): a.backward(net(torch.ones(2, 4)).sum())
"""),
    "static_used_later": ("llamafactory", "VG514", 2, None, DDP + """
net = ddp(Net(), static_graph=True)
for step in range(3): net(torch.ones(2, 4), image=step > 0, reentrant=False).backward()
"""),
    # meeting
    "late_store": ("swift", "VG517", 1, None, """
import torch.distributed as dist
from datetime import timedelta
store = dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=3), wait_for_workers=False)
store.wait(["ready"], timedelta(seconds=2))
"""),
    "late_gloo": ("trl", "VG517", 2, None, """
import os, time, torch.distributed as dist
from datetime import timedelta
if os.environ["RANK"] == "1": time.sleep(20)
dist.init_process_group("gloo", timeout=timedelta(seconds=4))
"""),
    "late_workers": ("llamafactory", "VG517", 1, None, """
import torch.distributed as dist
from datetime import timedelta
dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=3))
"""),
    # geometry
    "narrow_qwen_5": ("trl", "VG518", 1, None, """
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize
smart_resize(3, 4000)
"""),
    "narrow_qwen3": ("llamafactory", "VG518", 1, None, """
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize
smart_resize(3, 4000, 32, 65536, 16777216)
"""),
    # FSDP
    "uniform_dtype": ("swift", "VG519", 2, None, FSDP + """
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).to(torch.bfloat16))
FSDP(net, device_id=cpu)
"""),
    "uniform_lora": ("trl", "VG519", 2, None, FSDP + LLM + """
from peft import LoraConfig, get_peft_model
FSDP(get_peft_model(model, LoraConfig(target_modules=["q_proj"])), device_id=cpu, use_orig_params=False)
"""),
    "uniform_tower": ("llamafactory", "VG519", 2, None, FSDP + """
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
class Block(nn.Module):
    def __init__(self): super().__init__(); self.visual = nn.Linear(4, 4).requires_grad_(False); self.lm = nn.Linear(4, 4)
FSDP(nn.Sequential(Block(), Block()), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=cpu, use_orig_params=False)
"""),
    # float16
    "unscale_accelerate": ("swift", "VG520", 1, None, """
import torch
net = torch.nn.Linear(4, 4).half(); optimizer = torch.optim.AdamW(net.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu"); scaler.scale(net(torch.ones(2, 4).half()).float().sum()).backward(); scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0); scaler.step(optimizer)
"""),
    "unscale_lora": ("trl", "VG520", 1, None, LLM + """
from peft import LoraConfig, get_peft_model
net = get_peft_model(model.half(), LoraConfig(target_modules=["q_proj"]), autocast_adapter_dtype=False)
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1); scaler = torch.amp.GradScaler("cpu")
ids = torch.ones(1, 4, dtype=torch.long); scaler.scale(net(input_ids=ids, labels=ids).loss.float()).backward(); scaler.step(optimizer)
"""),
    # weights that do not fit
    "state_peft": ("trl", "VG522", 1, None, LLM + """
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
net = get_peft_model(model, LoraConfig(target_modules=["q_proj"], r=4))
other = get_peft_model(Qwen2ForCausalLM(config), LoraConfig(target_modules=["q_proj"], r=8))
from peft import get_peft_model_state_dict
set_peft_model_state_dict(net, get_peft_model_state_dict(other))
"""),
    "state_from_pretrained": ("swift", "VG522", 1, None, LLM + """
model.save_pretrained("one"); other = Qwen2Config(**{**config.to_dict(), "hidden_size": 64})
Qwen2ForCausalLM.from_pretrained("one", config=other)
"""),
    # not gathered
    "zero3_conv": ("swift", "VG523", 2, None, zero(3, """
w = engine.module.visual.weight
torch.nn.functional.conv2d(torch.ones(1, 4, 4, 4), w).sum()
""")),
    # target modules
    "targets_kind": ("swift", "VG525", 1, None, LLM + """
from peft import LoraConfig, get_peft_model
get_peft_model(model, LoraConfig(target_modules=["input_layernorm"]))
"""),
    "targets_regex": ("llamafactory", "VG525", 1, None, LLM + """
from peft import LoraConfig, get_peft_model
get_peft_model(model, LoraConfig(target_modules=r"^visual\\..*qkv$"))
"""),
    # dtypes
    "dtypes_attention": ("trl", "VG526", 1, None, """
import torch
q = torch.ones(1, 2, 4, 8); torch.nn.functional.scaled_dot_product_attention(q, q.bfloat16(), q.bfloat16())
"""),
    "dtypes_index_put": ("swift", "VG526", 1, None, """
import torch
x = torch.zeros(4, dtype=torch.bfloat16); x[torch.tensor([True, False, True, False])] = torch.ones(2)
"""),
    # devices (meta stands for a card)
    "devices_add": ("swift", "VG527", 1, None, "import torch\ntorch.ones(2) + torch.ones(2, device='meta')\n"),
    "devices_linear": ("trl", "VG527", 1, None, "import torch\ntorch.nn.Linear(4, 4, device='meta')(torch.ones(2, 4))\n"),
    # bf16
    "bf16_5_6": ("llamafactory", "VG529", 1, None, "from transformers import TrainingArguments\nTrainingArguments('x', bf16=True)\n"),
    # host memory
    "host_memory_numpy": ("swift", "VG532", 1, None, "import numpy\nnumpy.ones(2**45)\n"),
    "host_memory_limit": ("trl", "VG532", 1, None, """
import resource, torch
resource.setrlimit(resource.RLIMIT_AS, (30 * 2**30, 30 * 2**30)); rows = []
while True: rows.append(torch.empty(4 * 2**30, dtype=torch.uint8))
"""),
    "host_memory_list": ("llamafactory", "VG532", 1, None, "import resource\nresource.setrlimit(resource.RLIMIT_AS, (20 * 2**30,) * 2)\nb = [0] * 2**34\n"),
    # disk
    "disk_full_safetensors": ("swift", "VG535", 1, None, """
import resource, signal, torch
from safetensors.torch import save_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
save_file({"a": torch.ones(100000)}, "/dev/full")
"""),
    "disk_full_trainer": ("trl", "VG535", 1, None, LLM + """
import os; os.symlink("/dev/full", "optimizer.pt")
torch.save(model.state_dict(), "optimizer.pt")
"""),
    "disk_full_log": ("llamafactory", "VG535", 1, None, """
import json
with open("/dev/full", "w") as file: json.dump({"loss": [0.1] * 10000}, file)
"""),
    # network
    "interface_torchrun": ("swift", "VG536", 2, None, "import os; os.environ['GLOO_SOCKET_IFNAME'] = 'ib0'\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"),
    "host_unknown": ("trl", "VG536", 1, None, """
import os, torch.distributed as dist
from datetime import timedelta
os.environ.update(MASTER_ADDR="gpu-node-17.cluster", MASTER_PORT="29500", RANK="1", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=timedelta(seconds=5))
"""),
    "refused": ("llamafactory", "VG517", 1, None, """
import os, torch.distributed as dist
from datetime import timedelta
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK="1", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=timedelta(seconds=5))
"""),
    # driver
    "no_nccl": ("swift", "VG537", 1, None, """
import os, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("nccl")
"""),
    "set_device": ("trl", "VG537", 1, None, "import torch\ntorch.cuda.set_device(0)\n"),
    "to_cuda": ("llamafactory", "VG537", 1, None, LLM + "model.to('cuda')\n"),
    # hub
    "hub_gated": ("swift", "VG539", 1, None, hub(403, "GatedRepo", "Access to model google/gemma-3-4b-it is restricted", DOWNLOAD)),
    "hub_404": ("trl", "VG539", 1, None, hub(404, "RepoNotFound", "Repository not found", DOWNLOAD)),
    "hub_entry": ("llamafactory", "VG539", 1, None, hub(401, "GatedRepo", "Access to model is restricted. You must be authenticated", DOWNLOAD)),
    "hub_unreachable": ("swift", "VG540", 1, None, "import huggingface_hub, tempfile\nhuggingface_hub.hf_hub_download('Qwen/Qwen2.5-VL-7B-Instruct', 'config.json', endpoint='http://127.0.0.1:9', cache_dir=tempfile.mkdtemp())\n"),
    "hub_500": ("trl", "VG540", 1, None, hub(503, "", "Service unavailable", DOWNLOAD)),
    # cut files
    "cut_index": ("trl", "VG541", 1, None, LLM + """
import os
model.save_pretrained("one"); name = [n for n in os.listdir("one") if n.endswith("safetensors")][0]
data = open(f"one/{name}", "rb").read(); open(f"one/{name}", "wb").write(data[:500]); Qwen2ForCausalLM.from_pretrained("one")
"""),
    # ports
    "port_store": ("swift", "VG542", 1, None, """
import socket, torch.distributed as dist
taken = socket.socket(); taken.bind(("0.0.0.0", 0)); taken.listen()
dist.TCPStore("127.0.0.1", taken.getsockname()[1], 2, True)
"""),
    "port_python": ("trl", "VG542", 1, None, """
import http.server, socket
taken = socket.socket(); taken.bind(("127.0.0.1", 0)); taken.listen()
http.server.HTTPServer(("127.0.0.1", taken.getsockname()[1]), None)
"""),
    "port_torchrun": ("llamafactory", "VG542", 1, None, """
import socket, sys
from torch.distributed.run import main
taken = socket.socket(); taken.bind(("127.0.0.1", 0)); taken.listen()
main(["--nproc_per_node=1", "--master_addr=127.0.0.1", f"--master_port={taken.getsockname()[1]}", "--no-python", "true"])
"""),
    # workers
    "worker_exit": ("swift", "VG544", 1, None, loader("os._exit(3)")),
    "worker_segfault": ("trl", "VG544", 1, None, loader("import ctypes; ctypes.string_at(0)")),
    "worker_slow": ("llamafactory", "VG544", 1, None, loader("time.sleep(30)", "num_workers=1, timeout=2")),
    "map_killed": ("swift", "VG544", 1, None, """
import os, signal
from datasets import Dataset
def one(row): os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__": Dataset.from_dict({"a": list(range(8))}).map(one, num_proc=2)
"""),
    # indices
    "index_gather": ("trl", "VG545", 1, None, "import torch\ntorch.ones(2, 4).gather(1, torch.tensor([[9], [0]]))\n"),
    # tied
    "tied_pretrained": ("swift", "VG546", 1, None, LLM + """
model.visual = torch.nn.Linear(32, 200, bias=False); model.visual.weight = torch.nn.Parameter(model.lm_head.weight.data); model.other = torch.nn.Linear(32, 200, bias=False); model.other.weight = torch.nn.Parameter(model.lm_head.weight.data)
model.save_pretrained("one")
"""),
    "tied_module": ("trl", "VG546", 1, None, """
import torch
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.a = torch.nn.Linear(4, 4); self.b = torch.nn.Linear(4, 4); self.b.weight = self.a.weight
from transformers import Trainer, TrainingArguments
t = Trainer(Net(), TrainingArguments("out", use_cpu=True, report_to=[]), train_dataset=[1]); t.save_model("there")
from safetensors.torch import save_file
save_file(Net().state_dict(), "x.safetensors")
"""),
    # batch sizes
    "batch_sizes_trainer": ("swift", "VG547", 2, None, LLM + """
train(deepspeed={"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 2}})
"""),
    # flash attention
    "flash_5_6": ("llamafactory", "VG548", 1, None, LLM + "from transformers import AutoModelForCausalLM\nAutoModelForCausalLM.from_config(config, attn_implementation='flash_attention_2')\n"),
    "flash_import": ("trl", "VG548", 1, None, "from flash_attn import flash_attn_varlen_func\n"),
    # resume
    "resume_zero_world": ("swift", "VG550", 2, None, zero(2, """
engine.save_checkpoint("there", tag="a"); import os, torch.distributed as dist; dist.barrier()
if rank == 0: os.remove("there/a/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt") if os.path.exists("there/a/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt") else os.remove("there/a/zero_pp_rank_1_mp_rank_00_optim_states.pt")
dist.barrier(); engine.load_checkpoint("there", tag="a")
""")),
    # modules
    "module_swift_moved": ("swift", "VG552", 1, None, "from swift.llm import sft_main_v2\n"),
    # arguments
    "arguments_factory": ("llamafactory", "VG553", 1, None, """
from llamafactory.hparams import get_train_args
get_train_args(dict(stage="sft", model_name_or_path="x", template="qwen2_vl", dataset="a", output_dir="o", do_train=True, use_reentrant=False))
"""),
    "arguments_init": ("trl", "VG553", 1, None, "from trl import SFTConfig\nSFTConfig('out', bf16=False, max_seq_length=1024)\n"),
    # rows
    "rows_column": ("trl", "VG554", 1, None, "from datasets import Dataset\nDataset.from_dict({'text': ['a']})['messages']\n"),
    "rows_json": ("llamafactory", "VG554", 1, None, """
open("a.json", "w").write('[{"messages": [1, {"a": 2}]}, {"messages": "x", "images": 1')
from datasets import load_dataset
load_dataset("json", data_files="a.json", cache_dir="c")
"""),
    "rows_missing": ("swift", "VG568", 1, None, """
from datasets import load_dataset
load_dataset("json", data_files="nothing.jsonl", cache_dir="c")
"""),
    "rows_swift": ("swift", "VG568", 1, None, """
from swift.dataset import load_dataset
load_dataset(["/data/nothing/train.jsonl"])
"""),
    # images
    "image_worker": ("trl", "VG555", 1, None, loader("from PIL import Image; import io; Image.open(io.BytesIO(b'GIF89a' + b'0' * 9)).load()")),
    "image_missing_swift": ("swift", "VG555", 1, None, "from swift.template.vision_utils import load_image\nload_image('/data/images/1.jpg')\n"),
    "image_bomb": ("llamafactory", "VG555", 1, None, """
from PIL import Image
Image.MAX_IMAGE_PIXELS = 100
import io; f = io.BytesIO(); Image.new("RGB", (300, 300)).save(f, "PNG"); Image.open(io.BytesIO(f.getvalue())).load()
"""),
    # model types
    "model_class": ("trl", "VG556", 1, None, """
from transformers import AutoModelForCausalLM, CLIPVisionConfig
AutoModelForCausalLM.from_config(CLIPVisionConfig())
"""),
    "model_type_swift": ("swift", "VG556", 1, None, """
import json, os
os.makedirs("mine"); json.dump({"model_type": "qwen9_vl", "architectures": ["Qwen9VL"]}, open("mine/config.json", "w"))
from swift.model import get_model_processor
get_model_processor("mine", load_model=False)
"""),
    # ops
    "op_compiler": ("swift", "VG557", 1, None, """
import os; os.environ.update(CXX="/bin/false", TORCH_EXTENSIONS_DIR=os.getcwd())
from deepspeed.ops.adam import DeepSpeedCPUAdam
import torch
DeepSpeedCPUAdam([torch.nn.Parameter(torch.ones(4))])
"""),
    "op_ninja": ("trl", "VG557", 1, None, """
import os, torch.utils.cpp_extension as c
os.environ["PATH"] = "/nowhere"
c.verify_ninja_availability()
"""),
    # crashes
    "segfault_spawn": ("swift", "VG558", 1, None, """
import ctypes, torch.multiprocessing as mp
def run(rank): ctypes.string_at(0)
if __name__ == "__main__": mp.start_processes(run, nprocs=1, start_method="fork")
"""),
    "segfault_thread": ("trl", "VG558", 1, None, "import ctypes, faulthandler, threading\nfaulthandler.enable()\nt = threading.Thread(target=lambda: ctypes.string_at(8)); t.start(); t.join()\n"),
    # ranks differ
    "ranks_differ_lora": ("swift", "VG561", 2, None, START + LLM + """
from peft import LoraConfig, get_peft_model
nn.parallel.DistributedDataParallel(get_peft_model(model, LoraConfig(target_modules=["q_proj"], r=4 * (1 + rank))))
"""),
    "ranks_differ_vocabulary": ("trl", "VG561", 2, None, LLM + """
import os
train(model=Qwen2ForCausalLM(Qwen2Config(**{**config.to_dict(), "vocab_size": 200 + int(os.environ["RANK"])})))
"""),
    # trackers
    "tracker_wandb": ("swift", "VG565", 1, None, LLM + "train(report_to=['wandb'])\n"),
    "tracker_swanlab": ("trl", "VG565", 1, None, LLM + "train(report_to=['swanlab'])\n"),
    "tracker_name": ("llamafactory", "VG565", 1, None, LLM + "train(report_to=['weights_and_biases'])\n"),
    # locks
    "lock_baton": ("swift", "VG567", 1, None, """
import filelock
a = filelock.FileLock("x.lock"); a.acquire()
filelock.UnixFileLock("x.lock", timeout=0.5).__enter__() if False else filelock.SoftFileLock("x.lock").acquire(timeout=0.5)
"""),
    # ended
    "ended_trainer": ("trl", "VG569", 1, None, LLM + """
import os, signal, threading
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start(); train(max_steps=100000)
"""),
    "ended_deepspeed": ("swift", "VG569", 2, None, zero(2, """
import signal, time
if rank == 0: os.kill(os.getpid(), signal.SIGINT)
time.sleep(3)
""")),
    # interfaces that changed
    "api_compute_loss": ("trl", "VG595", 1, None, LLM + """
class Mine(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False): return model(**inputs).loss
Mine(model, TrainingArguments("out", use_cpu=True, report_to=[], max_steps=1), train_dataset=rows).train()
"""),
    "api_trl_tokenizer": ("llamafactory", "VG595", 1, None, LLM + """
from trl import SFTTrainer
SFTTrainer(model, tokenizer=None, max_seq_length=10, train_dataset=rows)
"""),
    # not in the catalogue: said to be unknown, with the right rank
    "unknown_key": ("swift", "", 2, 1, START + """
rows = {"a": 1}
if rank == 1: rows["row 17"]
dist.barrier()
"""),
    "unknown_assert": ("trl", "", 2, 0, START + """
if rank == 0: assert False, "the reward must be between 0 and 1"
dist.barrier()
"""),
    "unknown_zero": ("llamafactory", "", 1, None, LLM + """
class Mine(Trainer):
    def compute_loss(self, *a, **k): return 1 / 0
Mine(model, TrainingArguments("out", use_cpu=True, report_to=[], max_steps=1), train_dataset=rows).train()
"""),
}

import tinyloop
import torch

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
rows = [torch.randn(4, 8) for _ in range(3)]
model = tinyloop.Model()
tinyloop.Loop(model).fit(rows)
print("trained", sum(p.sum().item() for p in model.parameters()))

"""The weights that the optimizer holds, in float32: half precision would hide small updates."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A copy as a plain tensor: Gemini's ignored parameters are of its own class."""
    return tensor.detach().float().clone().as_subclass(torch.Tensor)


def gemini(model: Any) -> dict[str, torch.Tensor]:
    """Each parameter out of its chunk's float32 copy (its only copy without master weights), which
    is sharded over the ranks; one that Gemini ignores as it is."""
    found, whole = {}, {}
    for parameter, name in model.param2name.items():
        chunk = model.chunk_manager.tensor_chunk_map.get(parameter)
        if chunk is None:
            found[name] = plain(parameter)
            continue
        if chunk not in whole:
            whole[chunk] = _gathered(chunk.paired_chunk or chunk)
        info = chunk.tensors_info[parameter]
        found[name] = whole[chunk][info.offset : info.end].view(parameter.shape)
    return found


def _gathered(chunk: Any) -> torch.Tensor:
    held = chunk.payload.detach().float().contiguous()
    if chunk.is_gathered:
        return held.clone()
    shards = [torch.empty_like(held) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, held)
    return torch.cat(shards)


def other(model: Any) -> dict[str, torch.Tensor]:
    """Of every other plug-in."""
    return {name: plain(tensor) for name, tensor in model.unwrap().state_dict().items()}

"""An ms-swift plug-in: videos are decoded by PyAV, as torchcodec would on a GPU machine."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import torch
from transformers.video_processing_utils import BaseVideoProcessor
from transformers.video_utils import VideoMetadata


def fetch_videos(self: Any, videos: Any, sample_indices_fn: Any = None) -> Any:
    """All frames of each file, [frame, channel, height, width] uint8, and what is known of it."""
    if isinstance(videos, (list, tuple)):
        return list(zip(*[fetch_videos(self, video) for video in videos], strict=True))
    with av.open(videos) as container:
        shots = [shot.to_ndarray(format="rgb24") for shot in container.decode(video=0)]
    frames = torch.from_numpy(np.stack(shots)).permute(0, 3, 1, 2)
    count = len(shots)
    known = VideoMetadata(
        total_num_frames=count, fps=1.0, duration=float(count), frames_indices=list(range(count))
    )
    return frames, known


BaseVideoProcessor.fetch_videos = fetch_videos

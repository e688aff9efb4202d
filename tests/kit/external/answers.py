"""An ms-swift external plug-in: an evaluation of what was generated, without the package jieba."""

from __future__ import annotations

from swift.metrics import eval_metrics_map


class Answers:
    """Counts them."""

    def __init__(self, args, trainer) -> None:
        pass

    def compute_metrics(self, predicted):
        return {"answers": float(len(predicted.predictions))}

    preprocess_logits_for_metrics = None


eval_metrics_map["answers"] = Answers

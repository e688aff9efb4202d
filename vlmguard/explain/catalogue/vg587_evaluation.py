"""The evaluation fails: its data set, or the function that computes metrics."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG587",
    name="explain-evaluation",
    title="The evaluation failed: no data set, or the metric function refuses its input",
    zh="评估失败：缺少评估数据集，或指标函数无法处理预测结果（常见原因：-100 未替换、形状不符）",
    why=(
        "training itself was sound: an evaluation was due and had no data set, or compute_metrics "
        "got predictions and labels in a shape, type or range that the metric does not take "
        "(labels of -100 that a tokenizer is to decode, logits where class numbers are wanted, a "
        "tuple where an array is wanted)"
    ),
    do=(
        Do(
            "{advised}: the message itself asks for it",
            "none",
            kind="metric",
        ),
        Do(
            "print(preds.shape, labels.shape) first in compute_metrics: another number of "
            "rows; --dataloader_drop_last false, one label a row in the collator, and no "
            "nn.DataParallel (CUDA_VISIBLE_DEVICES=0, or torchrun)",
            "none",
            when=("nconsistent numbers",),
            kind="metric",
        ),
        Do(
            "--metric_for_best_model eval_loss --greater_is_better false: 'set to' names one "
            "that compute_metrics does not give; the message lists those that there are",
            "none",
            when=("metric_for_best_model",),
            kind="metric",
        ),
        Do(
            "preds = preds[:, :-1]; labels = labels[:, 1:], first in compute_metrics: logits "
            "are one token ahead of the labels",
            "none",
            when=("boolean index did not match",),
            kind="metric",
        ),
        Do(
            "python -c 'import evaluate; evaluate.load(\"{metric}\")', where there is a "
            "network: it fetches the metric's script into the cache; python -m pip install -U "
            "evaluate, where it says the same",
            "none",
            when=("Couldn't find a module script",),
            kind="metric",
        ),
        Do(
            "--eval_strategy no and no --do_eval, or pass eval_dataset (--val_dataset in ms-swift, "
            "eval_dataset or val_size in LLaMA-Factory)",
            "no evaluation",
            when=("eval_dataset", "requires an eval", "evaluation requires"),
        ),
        Do(
            "in compute_metrics: preds = preds[0] if isinstance(preds, tuple) else preds; preds = "
            "preds.argmax(-1): class numbers, not a score for each class",
            "none",
            when=("could not be broadcast", "mix of", "continuous", "match the expected format"),
        ),
        Do(
            "in compute_metrics, before decoding: preds and labels = np.where(x != -100, x, "
            "tokenizer.pad_token_id)",
            "none",
            unless=("eval_dataset", "evaluation requires"),
            kind="metric",
        ),
        Do(
            "preprocess_logits_for_metrics: take the argmax there; a tuple's first part only",
            "less memory, too",
            unless=("eval_dataset", "evaluation requires"),
        ),
        Do(
            "pip install -U evaluate, and evaluate.load('wer') alone in python: it says whether "
            "the metric's script can be fetched; without a network: evaluate.load('<folder of "
            "the metric, from the evaluate repository>')",
            "none",
            when=("Couldn't find a module script",),
        ),
        Do(
            "run trainer.evaluate() on ten rows before trainer.train(): it fails at once or never",
            "a minute",
        ),
    ),
    wrong="Longer time-outs do not help; nor does a smaller evaluation batch.",
    signs=(
        Sign("Only nested list/tuple/dicts of objects", also=("pad_across_processes",)),
        Sign("evaluation requires an eval_dataset", releases="transformers 3 to 5"),
        Sign("Trainer: evaluation requires"),
        Sign("references don't match the expected format", releases="evaluate, datasets' metrics"),
        Sign("Mismatch in the number of predictions", releases="evaluate"),
        Sign("Evaluation module inputs don't match"),
        Sign("out of range integral type conversion attempted", releases="tokenizers"),
        Sign("can't convert negative int to unsigned", releases="tokenizers"),
        Sign("Found input variables with inconsistent numbers of samples", releases="scikit-learn"),
        Sign("Classification metrics can't handle", releases="scikit-learn"),
        Sign("Target is multiclass but average='binary'", releases="scikit-learn"),
        Sign("Only one class present in y_true", releases="scikit-learn"),
        Sign("Number of classes in y_true not equal to the number of columns in 'y_score'"),
        Sign("your `compute_metrics` function must take a `compute_result`"),
        Sign("you haven't enabled evaluation during training"),
        Sign("KeyError: 'eval_"),
        Sign("Couldn't find a module script at", releases="evaluate, datasets' metrics"),
        Sign("Hypothesis is empty", releases="rouge"),
        Sign("Resource punkt", releases="nltk"),
        Sign("in compute_metrics", where="trace", no=("out of memory",)),
        Sign("self.compute_metrics(", where="trace", no=("out of memory",)),
        Sign("in preprocess_logits_for_metrics", where="trace", no=("out of memory",)),
        Sign("in get_eval_dataloader", where="raised"),
        Sign(
            "is not JSON serializable",
            also=("in save_to_json",),
            no=("type Tensor",),
            releases="transformers: a metric",
        ),
        Sign("in build_evaluator", where="raised", releases="detectron2"),
        Sign("is not found in the evaluation metrics"),
        Sign("but you didn't pass an `eval_dataset`"),
        Sign("in _determine_best_metric", where="raised"),
        Sign("-packages/evaluate/", where="raised"),
        Sign("-packages/sklearn/", where="raised"),
        Sign("-packages/seqeval/", where="raised"),
        Sign("-packages/rouge_score/", where="raised"),
        Sign("-packages/sacrebleu/", where="raised"),
        Sign("-packages/jiwer/", where="raised"),
        Sign("in compute_metrics()", where="within"),
        Sign("in preprocess_logits_for_metrics()", where="within"),
        Sign("eval_dataset", where="else"),
        Sign("compute_metrics", where="else"),
        Sign("evaluation dataset", where="else"),
    ),
    examples=(
        Example(
            "ValueError: Trainer: evaluation requires an eval_dataset.",
            "transformers/trainer.py, 5.19.0",
        ),
        Example(
            "OverflowError: out of range integral type conversion attempted",
            "tokenizers' decode of -100, 0.22",
        ),
    ),
    evidence="feizc/MLE-LLaMA#2, huggingface/transformers#39510, huggingface/transformers#22634.",
    narrow=-1,
)

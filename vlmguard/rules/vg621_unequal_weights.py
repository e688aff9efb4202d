"""Tokens of one step weigh differently in the loss.

What it does
    Reads the weight that each of the sampled targets has in the loss, over all micro-batches
    and ranks of a step. A mean over tokens gives all of them the same. It speaks if they
    differ and the pattern has a usual cause: a mean over means.

Why it is bad
    With a mean per micro-batch or per rank, a token of a short answer weighs more than one of a
    long answer. The gradient is not that of the loss which is logged.
    huggingface/transformers#34242 and #39395, vllm-project/speculators#942.

When it is wrong
    Some losses weigh tokens on purpose: DPO, KTO and GRPO, a weight for each sample, focal
    losses. The report shows their weights and does not warn. The same holds for a class that
    says accepts_loss_kwargs = False (Qwen2-VL, Gemma3): the Trainer takes each micro-batch's
    mean for it.

Example
    two ranks with 10 and 1000 target tokens, and a loss that each rank averages alone

Use instead
    Divide by the number of targets of the whole step (`num_items_in_batch` in a Trainer), or
    set average_tokens_across_devices.

Evidence
    Own measurement: a loss that forwards twice, the second time with half a weight, reads as
    two weights and a sum of 1.5 (2 gloo ranks on CPU). The threads above, as read.
    tests/ledger.
"""

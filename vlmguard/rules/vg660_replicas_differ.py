"""Weights that all ranks should share differ between them.

What it does
    Compares checksums of the tensors that each rank holds as a whole, after the first steps and
    at each save. Partitioned tensors are not replicas and are left out.

Why it is bad
    Each rank trains a model of its own and only one of them is saved. A `training_step` that
    calls `self.model` and not the wrapper averages nothing: the ranks were 5e-2 apart after
    three steps, exit 0. huggingface/trl#7245 and #5282, jingyaogong/minimind#854; one rank's
    LayerNorm in BLOOM's training (TrainCheck, OSDI'25).

When it is wrong
    Some runs give each rank its own weights on purpose: local SGD, an ensemble, a tower for each
    rank.

Example
    outputs = self.model(**inputs) in a training_step of one's own, under DDP

Use instead
    The model that the step is given: outputs = model(**inputs). Tensors are frozen or unfrozen, and
    weights are loaded, before the model is wrapped. The last micro-batch of a step does not run
    under no_sync().

Evidence
    Own measurement, 2 gloo ranks on CPU: MiniCPM-V's CPMTrainer; DPO with Liger's loss in TRL
    1.10.0 and 1.11.0 (trl#7245), told in the first step with VG640, the ranks 6e-3 apart after
    five. The other threads as read.
    tests/ledger.
"""

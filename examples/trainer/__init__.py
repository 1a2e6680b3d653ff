"""An example trainer: reinforcement learning and on-policy distillation behind Atropos.

`python -m examples.trainer`, with the Python of the vLLM environment. Only `policy`, `losses`,
`update`, `checkpoints` and `trainer` need torch.
"""

"""How a job could be run, and what each way would cost: pure formulas over tables that are data.

A plan is a spec that anybody could have written; the core knows nothing of plans. Every formula
names its source. What a formula cannot say, history may; where neither has anything, nothing is
said. Kinds of GPUs, links and their figures are data in `kinds.yaml`; precisions and optimizers are in `recipe`. Read
`network`, `layout`, `step` and `memory` in this order, then `search` and `choice`.
"""

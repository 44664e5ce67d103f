"""Several processes with DeepSpeed, after its getting-started page: an engine that is initialised, ZeRO stage 1.

    gpucommons submit --workers 2 --gpus 1 deepspeed_processes.py

Nothing in it knows of GPU Commons: `deepspeed.initialize()` finds the others as under the program `deepspeed`.
It saves each step and goes on from what it finds. `deepspeed_by_hand.sh` starts the same by hand.
"""

import time
from pathlib import Path

import deepspeed
import numpy as np
import torch

STEPS, SAVED, BATCH = 40, "saved_deepspeed", 64
CONFIG = {
    "train_batch_size": BATCH,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "zero_allow_untested_optimizer": True,
    "zero_optimization": {"stage": 1},
}

deepspeed.init_distributed()
rank, size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
numbers = np.random.default_rng(0)
inputs = numbers.normal(size=(BATCH, 20)).astype("float32")
targets = inputs @ numbers.normal(size=(20, 1)).astype("float32")
model = torch.nn.Linear(20, 1, bias=False)
torch.nn.init.zeros_(model.weight)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
x, y = (torch.from_numpy(part[rank::size]).to(engine.device) for part in (inputs, targets))

found, _ = engine.load_checkpoint(SAVED)
if found and rank == 0:
    print(f"{size} processes go on after step {engine.global_steps}", flush=True)
for step in range(engine.global_steps + 1, STEPS + 1):
    loss = torch.nn.functional.mse_loss(engine(x), y)
    engine.backward(loss)
    engine.step()
    mean = loss.detach().clone()
    deepspeed.comm.all_reduce(mean)
    tag = f"step{step % 2}"  # each saves its part; the last two are kept
    engine.save_checkpoint(SAVED, tag=tag, save_latest=False)
    # DeepSpeed itself names a checkpoint the latest before the others have written their parts.
    if rank == 0:
        Path(SAVED, "latest.new").write_text(tag)
        Path(SAVED, "latest.new").replace(Path(SAVED, "latest"))
        print(f"step {step}: loss={mean.item() / size:.6f}", flush=True)
    time.sleep(0.3)
if rank == 0:
    weights = engine.module.weight.detach().cpu().numpy()
    np.save("deepspeed_weights.npy", weights)
    print(f"final {weights.sum():.6f}", flush=True)
deepspeed.comm.destroy_process_group()

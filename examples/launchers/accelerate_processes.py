"""Several processes with Accelerate, after its quick tour: a loop whose parts are prepared.

    gpucommons submit --workers 2 --gpus 1 accelerate_processes.py

Nothing in it knows of GPU Commons: `Accelerator()` finds the others as under `accelerate launch`. It saves
each step and goes on from what it finds. `accelerate_by_hand.sh` starts the same by hand.
"""

import time
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

STEPS, SAVED, BATCH = 40, Path("saved_accelerate.pt"), 64

accelerator = Accelerator()
numbers = np.random.default_rng(0)
inputs = numbers.normal(size=(BATCH, 20)).astype("float32")
targets = inputs @ numbers.normal(size=(20, 1)).astype("float32")
data = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(targets))
loader = DataLoader(data, batch_size=BATCH // accelerator.num_processes)
model = torch.nn.Linear(20, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

done = 0
if SAVED.exists():
    saved = torch.load(SAVED, map_location="cpu")
    accelerator.unwrap_model(model).load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    done = saved["step"]
    accelerator.print(f"{accelerator.num_processes} processes go on after step {done}", flush=True)
for step in range(done + 1, STEPS + 1):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    mean = accelerator.reduce(loss.detach(), "mean").item()
    if accelerator.is_main_process:
        state = accelerator.unwrap_model(model).state_dict()
        torch.save({"model": state, "optimizer": optimizer.state_dict(), "step": step}, "part.pt")
        Path("part.pt").replace(SAVED)
        print(f"step {step}: loss={mean:.6f}", flush=True)
    time.sleep(0.3)
if accelerator.is_main_process:
    weights = accelerator.unwrap_model(model).weight.detach().cpu().numpy()
    np.save("accelerate_weights.npy", weights)
    print(f"final {weights.sum():.6f}", flush=True)
accelerator.end_training()

"""Several ranks with Horovod and PyTorch, after Horovod's own example: gradients are averaged by all.

    gpucommons submit --workers 2 --gpus 1 horovod_ranks.py

Nothing in it knows of GPU Commons: `mpirun` stands behind it as it would by hand. Horovod must be built with
MPI. It saves each step and goes on from what it finds. `horovod_by_hand.sh` starts the same by hand.
"""

import time
from pathlib import Path

import horovod.torch as hvd
import torch

STEPS, SAVED, BATCH = 40, Path("saved_horovod.pt"), 64

hvd.init()
rank, count = hvd.rank(), hvd.size()
torch.manual_seed(0)
inputs = torch.randn(BATCH, 20)
targets = inputs @ torch.randn(20, 1)
x, y = inputs[rank::count], targets[rank::count]

model = torch.nn.Linear(20, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
done = 0
if rank == 0 and SAVED.exists():
    saved = torch.load(SAVED, weights_only=True)
    model.load_state_dict(saved["model"])
    done = saved["step"]
    print(f"rank {rank} goes on after step {done}", flush=True)
done = hvd.broadcast_object(done, root_rank=0)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

for step in range(done + 1, STEPS + 1):
    optimizer.zero_grad()
    error = ((model(x) - y) ** 2).mean()
    error.backward()
    optimizer.step()
    loss = hvd.allreduce(error.detach())
    if rank == 0:
        torch.save({"step": step, "model": model.state_dict()}, "part.pt")
        Path("part.pt").replace(SAVED)
        print(f"step {step}: loss={loss.item():.6f}", flush=True)
    time.sleep(0.3)
if rank == 0:
    torch.save(model.state_dict(), "horovod_model.pt")
    print(f"final {model.weight.sum().item():.6f}", flush=True)

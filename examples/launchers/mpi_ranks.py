"""Several ranks with mpi4py, after its tutorial: a gradient summed by all with Allreduce.

    gpucommons submit --workers 2 --gpus 1 mpi_ranks.py

Nothing in it knows of GPU Commons: `mpirun` stands behind it as it would by hand. It saves each step and
goes on from what it finds. `mpi_by_hand.sh` starts the same by hand.
"""

import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

STEPS, SAVED, BATCH = 40, Path("saved_mpi.npz"), 64

world = MPI.COMM_WORLD
rank, count = world.Get_rank(), world.Get_size()
numbers = np.random.default_rng(0)
inputs = numbers.normal(size=(BATCH, 20))
targets = inputs @ numbers.normal(size=(20, 1))
x, y = inputs[rank::count], targets[rank::count]

done, weights = 0, np.zeros((20, 1))
if rank == 0 and SAVED.exists():
    with np.load(SAVED) as saved:
        done, weights = int(saved["step"]), saved["weights"]
    print(f"rank {rank} goes on after step {done}", flush=True)
done, weights = world.bcast((done, weights), root=0)

for step in range(done + 1, STEPS + 1):
    error = x @ weights - y
    gradient = np.empty_like(weights)
    world.Allreduce(2 * x.T @ error / BATCH, gradient, op=MPI.SUM)
    loss = world.allreduce(float((error**2).sum()) / BATCH)
    weights = weights - 0.1 * gradient
    if rank == 0:
        np.savez("part.npz", step=step, weights=weights)
        Path("part.npz").replace(SAVED)
        print(f"step {step}: loss={loss:.6f}", flush=True)
    time.sleep(0.3)
if rank == 0:
    np.save("mpi_weights.npy", weights)
    print(f"final {weights.sum():.6f}", flush=True)

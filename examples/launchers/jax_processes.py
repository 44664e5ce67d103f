"""Several processes with jax.distributed, after JAX's guide to multi-process programming.

    gpucommons submit --workers 2 --gpus 1 jax_processes.py

Nothing in it knows of GPU Commons: `initialize()` finds the others by itself. It saves each step and goes
on from what it finds. `jax_by_hand.py` starts the same by hand.
"""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, SAVED, BATCH = 40, Path("saved_jax.npz"), 64


def loss_of(weights, x, y):
    return jnp.mean((x @ weights - y) ** 2)


@jax.jit
def train(weights, x, y):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return weights - 0.1 * gradient, loss


def main():
    rank, count = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_rows, same = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), ()))
    numbers = np.random.default_rng(0)
    inputs = numbers.normal(size=(BATCH, 20)).astype("float32")
    targets = inputs @ numbers.normal(size=(20, 1)).astype("float32")
    own = slice(rank * BATCH // count, (rank + 1) * BATCH // count)
    x = jax.make_array_from_process_local_data(by_rows, inputs[own])
    y = jax.make_array_from_process_local_data(by_rows, targets[own])
    done, found = 0, np.zeros((20, 1), "float32")
    if SAVED.exists():
        with np.load(SAVED) as saved:
            done, found = int(saved["step"]), saved["weights"]
        print(f"process {rank} goes on after step {done}", flush=True)
    weights = jax.make_array_from_process_local_data(same, found)
    for step in range(done + 1, STEPS + 1):
        weights, loss = train(weights, x, y)
        found = np.asarray(weights.addressable_data(0))
        if rank == 0:
            np.savez("part.npz", step=step, weights=found)
            Path("part.npz").replace(SAVED)
            print(f"step {step}: loss={float(loss.addressable_data(0)):.6f}", flush=True)
        time.sleep(0.3)
    if rank == 0:
        np.save("jax_weights.npy", found)
        print(f"final {found.sum():.6f}", flush=True)


if __name__ == "__main__":
    jax.distributed.initialize()
    main()

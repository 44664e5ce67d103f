"""A Ray cluster, after Ray's guide to parameter servers: tasks compute gradients, an actor has the weights.

    gpucommons submit --workers 2 --gpus 1 --launcher ray ray_tasks.py

Nothing in it knows of GPU Commons: `ray.init()` finds the cluster of the job's workers, on which this
script is the driver. It saves each step and goes on from what it finds. `ray_by_hand.sh` starts the same
by hand.
"""

import time
from pathlib import Path

import numpy as np
import ray

STEPS, SAVED, BATCH, TASKS = 40, Path("saved_ray.npz"), 64, 2


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
class Shard:
    def __init__(self, number):
        numbers = np.random.default_rng(0)
        inputs = numbers.normal(size=(BATCH, 20))
        targets = inputs @ numbers.normal(size=(20, 1))
        self.x, self.y = inputs[number::TASKS], targets[number::TASKS]

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def gradient(self, weights):
        error = self.x @ weights - self.y
        return 2 * self.x.T @ error / BATCH, float((error**2).sum()) / BATCH


ray.init()
shards = [Shard.remote(number) for number in range(TASKS)]
print(f"shards on {len(set(ray.get([shard.node.remote() for shard in shards])))} nodes", flush=True)

done, weights = 0, np.zeros((20, 1))
if SAVED.exists():
    with np.load(SAVED) as saved:
        done, weights = int(saved["step"]), saved["weights"]
    print(f"goes on after step {done}", flush=True)
for step in range(done + 1, STEPS + 1):
    found = ray.get([shard.gradient.remote(weights) for shard in shards])
    weights = weights - 0.1 * sum(gradient for gradient, _ in found)
    np.savez("part.npz", step=step, weights=weights)
    Path("part.npz").replace(SAVED)
    print(f"step {step}: loss={sum(loss for _, loss in found):.6f}", flush=True)
    time.sleep(0.3)
np.save("ray_weights.npy", weights)
print(f"final {weights.sum():.6f}", flush=True)

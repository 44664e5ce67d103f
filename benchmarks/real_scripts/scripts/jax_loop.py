"""A loop in JAX that keeps its parameters with NumPy every ten steps."""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

SAVED = "params.npz"
first, weights = 0, jnp.zeros(8)
if os.path.exists(SAVED):
    saved = np.load(SAVED)
    first, weights = int(saved["step"]) + 1, jnp.asarray(saved["weights"])
inputs = jax.random.normal(jax.random.key(0), (64, 8))
targets = inputs @ jnp.arange(8.0)


@jax.jit
def update(weights):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((inputs @ w - targets) ** 2))(weights)
    return weights - 0.05 * gradient, loss


progress = tqdm(range(first, 80), initial=first, total=80)
for step in progress:
    weights, loss = update(weights)
    time.sleep(0.2)
    progress.set_postfix(loss=f"{loss:.4f}")
    print(f"done step {step}", flush=True)
    if step % 10 == 0:
        np.savez("part.npz", step=step, weights=weights)
        os.replace("part.npz", SAVED)
np.savez("model.npz", weights=weights)

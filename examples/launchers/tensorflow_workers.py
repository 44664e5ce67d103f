"""Several workers with MultiWorkerMirroredStrategy, after TensorFlow's guide to custom training loops.

    gpucommons submit --workers 2 --gpus 1 tensorflow_workers.py

Nothing in it knows of GPU Commons: the cluster stands in TF_CONFIG, as TensorFlow wants it. It saves each
step and goes on from what it finds. `tensorflow_by_hand.sh` starts the same by hand.
"""

import time
from pathlib import Path

import numpy as np
import tensorflow as tf

STEPS, SAVED, BATCH = 40, "saved_tensorflow", 64

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
workers, task = strategy.num_replicas_in_sync, resolver.task_id
is_first = resolver.task_type in (None, "chief") or (resolver.task_type == "worker" and task == 0)
if resolver.task_type == "worker" and "chief" in resolver.cluster_spec().jobs:
    is_first, task = False, task + 1

numbers = np.random.default_rng(0)
inputs = numbers.normal(size=(BATCH, 20)).astype("float32")
targets = inputs @ numbers.normal(size=(20, 1)).astype("float32")
own = slice(task or 0, None, workers)

with strategy.scope():
    weights = tf.Variable(tf.zeros((20, 1)))
    step = tf.Variable(0, dtype=tf.int64)


@tf.function
def train(x, y):
    def one(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - y) ** 2)
        context = tf.distribute.get_replica_context()
        mean = tf.distribute.ReduceOp.MEAN
        gradient = context.all_reduce(mean, tape.gradient(loss, weights))
        weights.assign_sub(0.1 * gradient)
        step.assign_add(1)
        return context.all_reduce(mean, loss)

    return strategy.run(one, args=(x, y))


# All workers take part in a save, and only the first one's is kept.
checkpoint = tf.train.Checkpoint(weights=weights, step=step)
place = SAVED if is_first else f"{SAVED}/.worker-{task}"
keeper = tf.train.CheckpointManager(checkpoint, place, max_to_keep=2)
latest = tf.train.latest_checkpoint(SAVED)
if latest:
    checkpoint.restore(latest).expect_partial()
    print(f"worker {task} goes on after step {int(step.numpy())}", flush=True)

while int(step.numpy()) < STEPS:
    losses = strategy.experimental_local_results(train(inputs[own], targets[own]))
    keeper.save(checkpoint_number=int(step.numpy()))
    if is_first:
        print(f"step {int(step.numpy())}: loss={float(losses[0]):.6f}", flush=True)
    time.sleep(0.3)
if is_first:
    Path("model").mkdir(exist_ok=True)
    np.save("model/weights.npy", weights.numpy())
    print(f"final {float(tf.reduce_sum(weights)):.6f}", flush=True)

"""Parameter servers with ParameterServerStrategy, after TensorFlow's guide to it.

    gpucommons submit -f tensorflow_servers.yaml

Nothing in it knows of GPU Commons: the cluster and this process' role stand in TF_CONFIG, as TensorFlow
wants it. Workers and servers serve the chief, which saves each step and goes on from what it finds.
`tensorflow_servers_by_hand.sh` starts the same by hand.
"""

import time

import numpy as np
import tensorflow as tf

STEPS, SAVED, BATCH = 40, "saved_servers", 64

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        start=True,
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
numbers = np.random.default_rng(0)
inputs = numbers.normal(size=(BATCH, 20)).astype("float32")
targets = inputs @ numbers.normal(size=(20, 1)).astype("float32")

with strategy.scope():
    weights = tf.Variable(tf.zeros((20, 1)))
    step = tf.Variable(0, dtype=tf.int64)


@tf.function
def train():
    def one():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.constant(inputs) @ weights - tf.constant(targets)) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        step.assign_add(1)
        return loss

    return strategy.run(one)


checkpoint = tf.train.Checkpoint(weights=weights, step=step)
keeper = tf.train.CheckpointManager(checkpoint, SAVED, max_to_keep=2)
if keeper.latest_checkpoint:
    checkpoint.restore(keeper.latest_checkpoint).expect_partial()
    print(f"goes on after step {int(step.numpy())}", flush=True)

while int(step.numpy()) < STEPS:
    loss = coordinator.schedule(train)
    coordinator.join()
    keeper.save(checkpoint_number=int(step.numpy()))
    print(f"step {int(step.numpy())}: loss={float(loss.fetch()):.6f}", flush=True)
    time.sleep(0.3)
np.save("servers_weights.npy", weights.numpy())
print(f"final {float(tf.reduce_sum(weights)):.6f}", flush=True)

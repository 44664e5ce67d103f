"""A Spark cluster, after Spark's own example of logistic regression: a gradient summed over an RDD.

    gpucommons submit --workers 2 --launcher spark spark_rows.py

Nothing in it knows of GPU Commons: the session finds the cluster of the job's workers, on which this script
is the driver. It saves each step and goes on from what it finds. `spark_by_hand.sh` starts the same by hand.
"""

import time
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

STEPS, SAVED, BATCH = 20, Path("saved_spark.npz"), 64

session = SparkSession.builder.appName("rows").getOrCreate()
context = session.sparkContext
numbers = np.random.default_rng(0)
inputs = numbers.normal(size=(BATCH, 20))
targets = inputs @ numbers.normal(size=(20, 1))
rows = context.parallelize(list(zip(inputs, targets, strict=True)), 2).cache()


def part(known):
    def one(found):
        x, y = (np.array(column) for column in zip(*found, strict=True))
        error = x @ known - y
        yield 2 * x.T @ error / BATCH, float((error**2).sum()) / BATCH

    return one


done, weights = 0, np.zeros((20, 1))
if SAVED.exists():
    with np.load(SAVED) as saved:
        done, weights = int(saved["step"]), saved["weights"]
    print(f"goes on after step {done}", flush=True)
for step in range(done + 1, STEPS + 1):
    found = rows.mapPartitions(part(weights)).collect()
    weights = weights - 0.1 * sum(gradient for gradient, _ in found)
    np.savez("part.npz", step=step, weights=weights)
    Path("part.npz").replace(SAVED)
    print(f"step {step}: loss={sum(loss for _, loss in found):.6f}", flush=True)
    time.sleep(0.3)
np.save("spark_weights.npy", weights)
print(f"final {weights.sum():.6f}", flush=True)
session.stop()

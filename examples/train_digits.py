"""Train a small network on scikit-learn's digits: epochs, checkpoints, exact resume.

The same seed gives the same final accuracy, whether the run was stopped ten times or never: weights,
momentum and the position in the data order all lie in the checkpoint.

    gpucommons submit examples/train_digits.py --team vision --gpus 1 -- --epochs 50
"""

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from gpucommons.scheduler import training

HIDDEN, CLASSES, BATCH = 64, 10, 64


def load(seed):
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.data))
    images, labels = digits.data[order] / 16.0, digits.target[order]
    return (images[:1400], labels[:1400]), (images[1400:], labels[1400:])


def start(seed):
    rng = np.random.default_rng(seed)
    shapes = {"w1": (64, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, CLASSES), "b2": (CLASSES,)}
    weights = {
        name: rng.normal(0, 0.1, shape) if len(shape) == 2 else np.zeros(shape)
        for name, shape in shapes.items()
    }
    return weights, {f"m_{name}": np.zeros(shape) for name, shape in shapes.items()}


def forward(weights, images):
    hidden = np.maximum(images @ weights["w1"] + weights["b1"], 0)
    scores = hidden @ weights["w2"] + weights["b2"]
    scores -= scores.max(axis=1, keepdims=True)
    likely = np.exp(scores)
    return hidden, likely / likely.sum(axis=1, keepdims=True)


def gradients(weights, images, labels):
    hidden, likely = forward(weights, images)
    loss = -np.log(likely[np.arange(len(labels)), labels] + 1e-12).mean()
    delta = likely
    delta[np.arange(len(labels)), labels] -= 1
    delta /= len(labels)
    back = (delta @ weights["w2"].T) * (hidden > 0)
    return loss, {
        "w1": images.T @ back,
        "b1": back.sum(axis=0),
        "w2": hidden.T @ delta,
        "b2": delta.sum(axis=0),
    }


def one_epoch(weights, momentum, data, epoch, seed):
    images, labels = data
    order = np.random.default_rng([seed, epoch]).permutation(len(labels))
    losses = []
    for first in range(0, len(order), BATCH):
        rows = order[first : first + BATCH]
        loss, slopes = gradients(weights, images[rows], labels[rows])
        for name, slope in slopes.items():
            momentum[f"m_{name}"] = 0.9 * momentum[f"m_{name}"] - 0.1 * slope
            weights[name] += momentum[f"m_{name}"]
        losses.append(loss)
    return float(np.mean(losses))


def accuracy(weights, data):
    return float((forward(weights, data[0])[1].argmax(axis=1) == data[1]).mean())


def train(resume_dir: Path | None, epochs: int = 50, seed: int = 7, seconds_per_epoch: float = 0):
    run = training.current()
    train_data, test_data = load(seed)
    weights, momentum = start(seed)
    done = 0
    if resume_dir is not None:
        saved = np.load(resume_dir / "state.npz")
        weights = {name: saved[name] for name in weights}
        momentum = {name: saved[name] for name in momentum}
        done = run.resume_step()
        print(f"resumed from epoch {done}", flush=True)

    for epoch in range(done + 1, epochs + 1):
        loss = one_epoch(weights, momentum, train_data, epoch, seed)
        right = accuracy(weights, test_data)
        with run.checkpoint(step=epoch) as folder:
            np.savez(folder / "state.npz", **weights, **momentum)
        run.report(step=epoch, total_steps=epochs, epoch=epoch, loss=loss, accuracy=right)
        print(f"epoch {epoch}  loss {loss:.4f}  accuracy {right:.4f}  saved", flush=True)
        if run.should_stop and epoch < epochs:
            print(f"stopping after epoch {epoch}, as asked", flush=True)
            run.stop_now()
        run.wait(seconds_per_epoch)

    digest = float(sum(np.abs(value).sum() for value in weights.values()))
    result = {"epochs": epochs, "accuracy": accuracy(weights, test_data), "weights": digest}
    (run.results_dir / "digits.json").write_text(json.dumps(result) + "\n")
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds-per-epoch", type=float, default=0)
    arguments = parser.parse_args()
    train(training.current().resume_dir, **vars(arguments))

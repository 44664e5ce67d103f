"""Two workers (or more) train one network together: every step averages their gradients.

Each worker sees its own part of the data; rank 0 gathers the gradients of all over TCP, averages them
and hands the mean back, so all weights stay equal to the last bit. Nothing but numpy and sockets:
what torchrun and NCCL do, small enough to read.

    gpucommons submit examples/train_digits_gang.py --gpus 1 --workers 2 -- --epochs 20
"""

import argparse
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import train_digits as digits

from gpucommons.scheduler import training

NAMES = ("w1", "b1", "w2", "b2")


def pack(slopes, loss):
    return np.concatenate([*(slopes[name].ravel() for name in NAMES), [loss]]).tobytes()


def unpack(payload, like):
    flat, slopes, first = np.frombuffer(payload), {}, 0
    for name in NAMES:
        size = like[name].size
        slopes[name] = flat[first : first + size].reshape(like[name].shape)
        first += size
    return slopes, float(flat[-1])


def send(peer, payload):
    peer.sendall(struct.pack("!I", len(payload)) + payload)


def receive(peer):
    def exactly(count):
        parts = b""
        while len(parts) < count:
            part = peer.recv(count - len(parts))
            if not part:
                sys.exit("a worker of the gang is gone")
            parts += part
        return parts

    return exactly(struct.unpack("!I", exactly(4))[0])


class Gang:
    """All workers of the attempt, meeting at rank 0."""

    def __init__(self, rank, size, address, port):
        self.rank, self.size, self.peers = rank, size, []
        if rank == 0:
            with socket.create_server((address, port)) as server:
                self.peers = [server.accept()[0] for _ in range(size - 1)]
            return
        for _ in range(100):
            try:
                self.peers = [socket.create_connection((address, port), timeout=60)]
            except ConnectionRefusedError:
                time.sleep(0.1)
            else:
                return
        sys.exit(f"rank 0 does not answer at {address}:{port}")

    def mean(self, payload):
        if self.rank:
            send(self.peers[0], payload)
            return receive(self.peers[0])
        flat = np.frombuffer(payload).copy()
        for peer in self.peers:
            flat += np.frombuffer(receive(peer))
        answer = (flat / self.size).tobytes()
        for peer in self.peers:
            send(peer, answer)
        return answer


def epoch_of(gang, weights, momentum, data, seed_and_epoch):
    images, labels = data
    order = np.random.default_rng(seed_and_epoch).permutation(len(labels))
    # Every rank takes the same number of steps, or the gang would wait for ever.
    mine = order[: len(order) // gang.size * gang.size][gang.rank :: gang.size]
    losses = []
    for first in range(0, len(mine), digits.BATCH // gang.size):
        rows = mine[first : first + digits.BATCH // gang.size]
        loss, slopes = digits.gradients(weights, images[rows], labels[rows])
        slopes, loss = unpack(gang.mean(pack(slopes, loss)), weights)
        for name in NAMES:
            momentum[f"m_{name}"] = 0.9 * momentum[f"m_{name}"] - 0.1 * slopes[name]
            weights[name] = weights[name] + momentum[f"m_{name}"]
        losses.append(loss)
    return float(np.mean(losses))


def main(epochs, seed, seconds_per_epoch):
    run = training.current()
    gang = Gang(
        run.place.rank,
        run.place.world_size,
        os.environ.get("MASTER_ADDR", "127.0.0.1"),
        int(os.environ.get("MASTER_PORT", "29500")),
    )
    train_data, test_data = digits.load(seed)
    weights, momentum = digits.start(seed)
    if run.resume_dir is not None:
        saved = np.load(run.resume_dir / "state.npz")
        weights = {name: saved[name] for name in weights}
        momentum = {name: saved[name] for name in momentum}
        print(f"rank {gang.rank} resumed from epoch {run.resume_step()}", flush=True)
    for epoch in range(run.resume_step() + 1, epochs + 1):
        loss = epoch_of(gang, weights, momentum, train_data, [seed, epoch])
        right = digits.accuracy(weights, test_data)
        if gang.rank == 0:
            with run.checkpoint(step=epoch) as folder:
                np.savez(folder / "state.npz", **weights, **momentum)
        run.report(step=epoch, total_steps=epochs, epoch=epoch, loss=loss, accuracy=right)
        print(f"rank {gang.rank} epoch {epoch}  loss {loss:.4f}  accuracy {right:.4f}", flush=True)
        # Rank 0 decides for all, or one worker would leave while another waits for it.
        stop = np.array([1.0 if gang.rank == 0 and run.should_stop else 0.0])
        if np.frombuffer(gang.mean(stop.tobytes()))[0] > 0 and epoch < epochs:
            run.stop_now()
        run.wait(seconds_per_epoch)
    digest = float(sum(np.abs(value).sum() for value in weights.values()))
    print(json.dumps({"rank": gang.rank, "weights": digest}), flush=True)
    if gang.rank == 0:
        result = {"epochs": epochs, "accuracy": digits.accuracy(weights, test_data)}
        (run.results_dir / "gang.json").write_text(json.dumps(result | {"weights": digest}) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds-per-epoch", type=float, default=0)
    main(**vars(parser.parse_args()))

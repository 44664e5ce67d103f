"""What `benchmarks.advisor.real_torch` runs on two processes: six trainings, by one and by both.

Each round takes a few steps on the first process alone, then as many on both, at the same batch in
all: what disturbs the machine meets both alike. Its last line tells. Needs torch and this package.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from gpucommons.scheduler.advisor.descriptors.traced import from_module

MARK = "gpucommons-torch "  # read by `real_torch`
_COPIED = 16 << 20


class Words(nn.Module):
    """A language model of recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 256)
        self.layers = nn.LSTM(256, 256, 2, batch_first=True)
        self.out = nn.Linear(256, 2000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the words that come next, as classes in the second place."""
        return self.out(self.layers(self.words(x))[0]).transpose(1, 2)


class Attending(nn.Module):
    """The same of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3)
        self.out = nn.Linear(256, 2000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of each word, as classes in the second place."""
        return self.out(self.layers(self.words(x))).transpose(1, 2)


class Likes(nn.Module):
    """A recommender: who and what are embedded, and a few dense layers say yes or no."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Embedding(20_000, 64)
        self.dense = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of no and yes."""
        return self.dense(self.both(x).flatten(1))


class Residual(nn.Module):
    """Two convolutions beside what they are added to."""

    def __init__(self, width: int) -> None:
        super().__init__()
        parts = [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        again = [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)]
        self.parts = nn.Sequential(*parts, *again)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum, cut off below."""
        return torch.relu(x + self.parts(x))


def _pictures(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 3, 32, 32), torch.randint(10, (count,))


def _flat(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 784), torch.randint(10, (count,))


def _sentences(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(2000, (count, 32)), torch.randint(2000, (count, 32))


def _pairs(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(20_000, (count, 2)), torch.randint(2, (count,))


def _convolutions() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10)),
    )


def _residual() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(Residual(32), Residual(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def _dense() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    )


#: What is trained, on what, and the batch of all processes together.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any], int]] = {
    "dense": (_dense, _flat, 256),
    "convolutions": (_convolutions, _pictures, 64),
    "residual": (_residual, _pictures, 64),
    "recurrent": (Words, _sentences, 32),
    "attention": (Attending, _sentences, 32),
    "recommender": (Likes, _pairs, 2048),
}


def _trainer(model: nn.Module, module: nn.Module, data: Any) -> Callable[[], None]:
    inputs, targets = data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(module(inputs), targets).backward()
        optimizer.step()

    return step


def _timed(step: Callable[[], None]) -> list[float]:
    """Seconds of a step; of them those that a processor was waited for; those of all threads on processors."""
    before, used, began = _waited_s(), time.process_time(), time.perf_counter()
    step()
    return [time.perf_counter() - began, _waited_s() - before, time.process_time() - used]


def _waited_s() -> float:
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def _rounds(steps: dict[str, Callable[[], None]], limit_s: float) -> dict[str, list[list[float]]]:
    """Of each round and kind of step what `_timed` says: of two processes the most."""
    found: dict[str, list[list[float]]] = {name: [] for name in steps}
    first = distributed.get_rank() == 0
    for step in steps.values():
        step()
    ends = time.perf_counter() + limit_s
    while True:
        for name, step in steps.items():
            distributed.barrier()
            timed = _timed(step) if first or name == "two" else [0.0, 0.0, 0.0]
            told = torch.tensor([*timed, float(time.perf_counter() > ends)])
            distributed.all_reduce(told, distributed.ReduceOp.MAX)
            found[name].append(told[:3].tolist())
        if told[3]:
            return found


def _copied_bytes_per_s() -> float:
    """What a processor reads and writes per second while the others do, too."""
    source = torch.zeros(_COPIED)
    target = torch.empty_like(source)
    each = sorted(_timed(lambda: target.copy_(source))[0] for _ in range(9))
    return 2 * 4 * _COPIED / each[len(each) // 2]


def main(limit_s: float) -> None:
    """Measure all, and say it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    found: dict[str, Any] = {"copied_bytes_per_s": _copied_bytes_per_s(), "models": {}}
    for name, (make, data, batch) in MODELS.items():
        model = make()
        described = from_module(make(), data(1)[0], limit_s=60.0)
        shared = DistributedDataParallel(model)
        whole, half = data(batch), data(batch // 2)
        told = _rounds(
            {
                "probe": _trainer(model, model, whole),
                "half": _trainer(model, model, half),
                "one": _trainer(model, model, whole),
                "two": _trainer(model, shared, half),
            },
            limit_s / len(MODELS),
        )
        found["models"][name] = {
            "network": dataclasses.asdict(described),
            "batch": batch,
            "rounds": told,
        }
    if distributed.get_rank() == 0:
        sys.stdout.write(f"{MARK}{json.dumps(found)}\n")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(float(sys.argv[1]))

"""Which scripts start a framework that joins workers, told by reading them."""

from __future__ import annotations

import json

import pytest

from gpucommons.scheduler.scripts.frameworks import MAX_BYTES, read_script, script_in, warnings

STARTS = {
    "torch": ("import torch\ntorch.distributed.init_process_group('nccl')\n", "torch.distributed"),
    "dist": ("import torch.distributed as dist\ndist.init_process_group()\n", "torch.distributed"),
    "from": ("from torch import distributed as d\nd.init_process_group()\n", "torch.distributed"),
    "name": (
        "from torch.distributed import init_process_group as go\ndef main():\n    go()\n",
        "torch.distributed",
    ),
    "accelerate": ("from accelerate import Accelerator\na = Accelerator()\n", "Accelerate"),
    "deepspeed": ("import deepspeed\ndeepspeed.initialize(model=1)\n", "DeepSpeed"),
    "jax": ("import jax\njax.distributed.initialize()\n", "jax.distributed"),
    "mpi": ("from mpi4py import MPI\n", "MPI"),
    "horovod": ("import horovod.torch as hvd\nhvd.init()\n", "Horovod"),
    "tensorflow": (
        "import tensorflow as tf\ns = tf.distribute.MultiWorkerMirroredStrategy()\n",
        "MultiWorkerMirroredStrategy",
    ),
}


def read(text: str, name: str = "train.py") -> list[str]:
    return [start.framework.name for start in read_script(name, text.encode()).starts]


@pytest.mark.parametrize(("text", "framework"), STARTS.values(), ids=STARTS)
def test_each_framework_is_found_where_it_is_started(text: str, framework: str) -> None:
    assert read(text) == [framework]
    (warning,) = warnings(
        "train.py", read_script("train.py", text.encode()), workers=2, launcher="plain"
    )
    assert f"starts {framework}" in warning
    assert "each runs as a job of one" in warning


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nimport torch.distributed\nprint(torch.distributed.is_available())\n",
        "import jax\njax.distributed.initialize('host:1', 2, 0)\n",
        "def init_process_group(): pass\ninit_process_group()\n",
        "import accelerate\n",
        "# dist.init_process_group()\n's = Accelerator()'\n",
        "this is no Python (",
        "(" * 5000,
        "-" * 50_000 + "1",
        "a" + ".a" * 50_000,
        "\x00",
        "x = 1\n" * MAX_BYTES,
    ],
    ids=str,
)
def test_what_starts_none_or_cannot_be_read_is_no_reason_to_warn(text: str) -> None:
    assert read(text) == []


def test_one_worker_and_the_right_launcher_need_no_warning() -> None:
    torch = read_script("train.py", STARTS["torch"][0].encode())
    mpi = read_script("train.py", STARTS["mpi"][0].encode())
    assert warnings("train.py", torch, workers=1, launcher="plain") == []
    assert warnings("train.py", torch, workers=2, launcher="torchrun") == []
    assert len(warnings("train.py", mpi, workers=2, launcher="torchrun")) == 1
    accelerate = read_script("train.py", STARTS["accelerate"][0].encode())
    for launcher in ("accelerate", "torchrun", "deepspeed"):
        assert warnings("train.py", accelerate, workers=2, launcher=launcher) == []


def test_the_line_is_named_and_a_framework_once() -> None:
    text = "import torch\n\ntorch.distributed.init_process_group()\n" * 2
    (warning,) = warnings("a.py", read_script("a.py", text.encode()), workers=2, launcher="plain")
    assert warning.startswith("a.py (line 3) starts torch.distributed.")


def test_a_notebooks_cells_are_read_without_the_lines_for_ipython() -> None:
    cells = [
        {"cell_type": "markdown", "source": "from mpi4py import MPI"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n"]},
        {"cell_type": "code", "source": "%%bash\nif then"},
        {"cell_type": "code", "source": "if 1:\n    !ls\nfrom mpi4py import MPI\n"},
    ]
    assert read(json.dumps({"cells": cells}), "a.ipynb") == ["MPI"]
    assert read("{}", "a.ipynb") == []


def test_something_of_ours_is_seen() -> None:
    assert read_script("a.py", b"from gpucommons.scheduler import training\n").uses_ours
    assert not read_script("a.py", b"import gpucommonsx\n").uses_ours


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python", "-u", "train.py", "--x"], "train.py"),
        (["python", "-m", "gpucommons.scheduler.training.notebook", "a.ipynb"], "a.ipynb"),
        (["python", "-u", "-m", "pack.age"], "pack/age/__main__.py"),
        (["torchrun", "train.py"], None),
        (["/opt/bin/mpirun", "-n", "2", "python", "train.py"], None),
        (["true"], None),
    ],
)
def test_the_script_of_a_command(command: list[str], script: str | None) -> None:
    assert script_in(command) == script

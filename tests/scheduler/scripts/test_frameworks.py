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


TRAINERS = {
    "trl": "from trl import SFTConfig, SFTTrainer\nt = SFTTrainer(model='x', args=SFTConfig())\n",
    "trl as a whole": "import trl\ntrl.DPOTrainer(model=1)\n",
    "transformers": "from transformers import Seq2SeqTrainer as T\nT(model=1)\n",
    "a trainer of one's own": (
        "from transformers import Trainer\nclass Mine(Trainer):\n    pass\n"
        "class Other(Mine):\n    pass\nOther(model=1)\n"
    ),
    "sentence transformers": (
        "from sentence_transformers import SentenceTransformerTrainer\nSentenceTransformerTrainer()\n"
    ),
    "setfit": "import setfit\nsetfit.Trainer(model=1)\n",
}


@pytest.mark.parametrize("text", TRAINERS.values(), ids=TRAINERS)
def test_trainers_that_start_torch_by_themselves_are_known(text: str) -> None:
    assert read(text) == ["a Trainer of Hugging Face"]
    script = read_script("sft.py", text.encode())
    (warning,) = warnings("sft.py", script, workers=2, launcher="plain")
    assert "starts a Trainer of Hugging Face" in warning
    for launcher in ("torchrun", "accelerate", "deepspeed"):
        assert warnings("sft.py", script, workers=2, launcher=launcher) == []


@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning"])
def test_a_trainer_of_lightning_is_known(package: str) -> None:
    assert read(f"import {package} as L\nL.Trainer(max_epochs=1).fit(1)\n") == [
        "a Trainer of Lightning"
    ]


@pytest.mark.parametrize(
    ("text", "imports", "choose"),
    [
        ("import torch\n", "torch", "choose torchrun, or ask"),
        ("from torch import nn\nimport peft\n", "torch", "choose torchrun, or ask"),
        ("import tensorflow as tf\n", "tensorflow", "choose tensorflow, or ask"),
        ("import jax.numpy as jnp\n", "jax", "choose jax, or ask"),
        ("import torch\nfrom ultralytics import YOLO\n", "ultralytics", "(plain)"),
    ],
)
def test_several_workers_of_what_trains_may_each_train_alone(
    text: str, imports: str, choose: str
) -> None:
    script = read_script("a.py", text.encode())
    (warning,) = warnings("a.py", script, workers=2, launcher="plain")
    assert f"a.py imports {imports}, and without a launcher (plain)" in warning
    assert choose in warning
    assert warning.endswith("ask for one worker with more GPUs.")
    assert warnings("a.py", script, workers=2, launcher="torchrun") == []
    assert warnings("a.py", script, workers=1, launcher="plain") == []


@pytest.mark.parametrize(
    "text", ["import numpy\n", "import jax\njax.distributed.initialize('host:1', 2, 0)\n"]
)
def test_what_trains_nothing_or_joins_by_itself_is_not_warned_of(text: str) -> None:
    assert warnings("a.py", read_script("a.py", text.encode()), workers=2, launcher="plain") == []


@pytest.mark.parametrize(
    ("source", "takes"),
    [
        ("from megatron.training import pretrain\n", "megatron"),
        ("from megatron.training.arguments import parse_args\n", "megatron"),
        ("from megatron.core import parallel_state\n", ""),
        ("from torchtitan.train import main\n", "torchtitan"),
        ("from torchtitan.config import ConfigManager, JobConfig\n", "torchtitan"),
        ("from torchtitan.tools.logging import logger\n", ""),
        ("import torch\n", ""),
    ],
)
def test_whose_arguments_a_script_takes_is_told_by_what_reads_them(source: str, takes: str) -> None:
    script = read_script("train.py", source.encode())
    assert script.takes == takes
    assert bool(script.starts) == bool(takes)


@pytest.mark.parametrize("cells", ['"abc"', "[1, null]", "null", '[{"cell_type": "code"}]'])
def test_of_a_notebook_with_strange_cells_nothing_is_known(cells: str) -> None:
    found = read_script("n.ipynb", f'{{"cells": {cells}}}'.encode())
    assert (found.starts, found.takes) == ((), "")

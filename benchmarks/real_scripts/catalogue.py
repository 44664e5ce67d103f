"""Which scripts are played: what each is started with, and how its steps are read from its log."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

OURS = Path(__file__).with_name("scripts")
EXAMPLES = Path(__file__).parents[2] / "examples" / "launchers"
ORIGINS = Path(__file__).with_name("origins.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """One script as its framework's documentation shows it, and what is known of it beforehand."""

    name: str
    folder: Path
    #: Files that lie in the working folder; the first is the one that is started.
    files: tuple[str, ...]
    #: After ``gpucommons submit … --``; empty: the first file is submitted by its name.
    command: tuple[str, ...] = ()
    #: More options of ``gpucommons submit``.
    options: tuple[str, ...] = ()
    workers: int = 1
    #: One of the files that says how it is submitted, in place of options.
    job_file: str = ""
    #: Finds the number of a finished step in a line of the log.
    step: str
    #: Steps from one of its own saves to the next; 0 where it never saves, or never looks.
    saves_every: int = 0
    #: It is preempted once it has printed this step.
    stopped_after: float
    #: A file that it leaves behind when it has finished; empty where it leaves none.
    makes: str = ""
    #: Finds its final number in a line of the log; empty where it prints none.
    final: str = ""
    #: The launcher that is proposed for its workers; empty where it has one worker.
    launcher: str = ""
    #: Of somebody else: where it comes from.
    origin: str = ""


def _ours(name: str, file: str, step: str, **more: object) -> Script:
    fields: dict[str, object] = {"stopped_after": 15, "folder": OURS, "files": (file,)}
    return Script(name=name, step=step, **{**fields, **more})  # type: ignore[arg-type] # as above


_DDP = r"Epoch (\d+) \| Batchsize"
#: Short scripts that use each framework as its documentation shows.
SHORT: tuple[Script, ...] = (
    _ours("slurm-style", "slurm_style.py", r"^step (\d+)", saves_every=1, makes="model.json"),
    _ours(
        "slurm-job",
        "slurm_job.sh",
        r"^step (\d+)",
        command=("bash", "slurm_job.sh"),
        saves_every=1,
        makes="model.txt",
    ),
    _ours(
        "lightning",
        "lightning_autoencoder.py",
        r"^Epoch (\d+): train_loss",
        saves_every=1,
        stopped_after=6,
        makes="model.ckpt",
    ),
    _ours(
        "ddp",
        "ddp_snapshot.py",
        _DDP,
        workers=2,
        launcher="torchrun",
        saves_every=1,
        makes="snapshot.pt",
    ),
    _ours(
        "torchrun",
        "ddp_snapshot.py",
        _DDP,
        command=("torchrun", "--standalone", "--nproc-per-node", "2", "ddp_snapshot.py"),
        saves_every=1,
        makes="snapshot.pt",
    ),
    _ours(
        "transformers",
        "transformers_trainer.py",
        r"'epoch': '?([\d.]+)",
        saves_every=4,  # lines: one for five steps, a save each twenty
        stopped_after=2,
        makes="model/config.json",
    ),
    _ours("nanogpt", "nanogpt_style.py", r"^iter (\d+):", makes="model.pt"),
    _ours(
        "mnist",
        "mnist_style.py",
        r"Train Epoch: (\d+) \[0/",
        stopped_after=3,
        makes="mnist_cnn.pt",
    ),
    _ours(
        "data-loader",
        "data_loader.py",
        r"^step (\d+):",
        final=r"^final (\S+)",
        makes="model.pt",
    ),
    _ours(
        "keras",
        "keras_fit.py",
        r"^Epoch (\d+)/",
        saves_every=1,
        stopped_after=8,
        makes="model.keras",
    ),
    _ours("jax", "jax_loop.py", r"done step (\d+)", saves_every=10, makes="model.npz"),
    _ours("optuna", "optuna_study.py", r"Trial (\d+) finished", saves_every=1, makes="best.txt"),
    _ours("xgboost", "xgboost_continuation.py", r"^rounds done: (\d+)", makes="model.json"),
    _ours("tensorboard", "tensorboard_writer.py", r"^done (\d+)", saves_every=1, makes="model.txt"),
    _ours(
        "notebook",
        "parameters.ipynb",
        r"step (\d+):",
        options=("-p", "rate", "0.9", "-p", "steps", "60"),
        makes="model.txt",
    ),
)

#: The example of each launcher: who starts it, its files, and what it leaves.
_EXAMPLES = {
    "accelerate": ("accelerate", ("accelerate_processes.py",), "accelerate_weights.npy"),
    "deepspeed": ("deepspeed", ("deepspeed_processes.py",), "deepspeed_weights.npy"),
    "tensorflow": ("tensorflow", ("tensorflow_workers.py",), "model/weights.npy"),
    "jax-processes": ("jax", ("jax_processes.py",), "jax_weights.npy"),
    "tensorflow-servers": (
        "tensorflow",
        ("tensorflow_servers.py", "tensorflow_servers.yaml"),
        "servers_weights.npy",
    ),
    "mpi-ranks": ("mpi", ("mpi_ranks.py",), "mpi_weights.npy"),
    "ray-tasks": ("ray", ("ray_tasks.py",), "ray_weights.npy"),
    "spark-rows": ("spark", ("spark_rows.py",), "spark_weights.npy"),
}
#: Two workers each, and no launcher named.
BY_LAUNCHER = tuple(
    Script(
        name=name,
        folder=EXAMPLES,
        files=files,
        job_file=next((one for one in files if one.endswith(".yaml")), ""),
        workers=2,
        launcher=launcher,
        step=r"^step (\d+):",
        final=r"^final (\S+)",
        saves_every=1,
        # Early: a machine with other work may need seconds to see it.
        stopped_after=3,
        makes=makes,
    )
    for name, (launcher, files, makes) in _EXAMPLES.items()
)


def of_others(folder: Path) -> tuple[Script, ...]:
    """Public scripts named in ``origins.toml``: each in a folder of its own name below this one."""
    entries = tomllib.loads(ORIGINS.read_text())["script"]
    return tuple(
        Script(
            **{
                key: tuple(value) if isinstance(value, list) else value
                for key, value in entry.items()
            },
            folder=folder / entry["name"],
        )
        for entry in entries
    )

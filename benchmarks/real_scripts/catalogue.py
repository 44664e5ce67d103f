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


def ours() -> tuple[Script, ...]:
    """Short scripts that use each framework as its documentation shows."""
    ddp = r"Epoch (\d+) \| Batchsize"
    return (
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
            ddp,
            workers=2,
            launcher="torchrun",
            saves_every=1,
            makes="snapshot.pt",
        ),
        _ours(
            "torchrun",
            "ddp_snapshot.py",
            ddp,
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
        _ours(
            "optuna", "optuna_study.py", r"Trial (\d+) finished", saves_every=1, makes="best.txt"
        ),
        _ours("xgboost", "xgboost_continuation.py", r"^rounds done: (\d+)", makes="model.json"),
        _ours(
            "tensorboard", "tensorboard_writer.py", r"^done (\d+)", saves_every=1, makes="model.txt"
        ),
        _ours(
            "notebook",
            "parameters.ipynb",
            r"step (\d+):",
            options=("-p", "rate", "0.9", "-p", "steps", "60"),
            makes="model.txt",
        ),
    )


def by_launcher() -> tuple[Script, ...]:
    """The example of each launcher: two workers, and no launcher named."""
    fields: dict[str, object] = {
        "folder": EXAMPLES,
        "workers": 2,
        "step": r"^step (\d+):",
        "final": r"^final (\S+)",
        "saves_every": 1,
        # Early: a machine with other work may need seconds to see it.
        "stopped_after": 3,
    }
    return (
        Script(
            name="accelerate",
            launcher="accelerate",
            files=("accelerate_processes.py",),
            makes="accelerate_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="deepspeed",
            launcher="deepspeed",
            files=("deepspeed_processes.py",),
            makes="deepspeed_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="tensorflow",
            launcher="tensorflow",
            files=("tensorflow_workers.py",),
            makes="model/weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="jax-processes",
            launcher="jax",
            files=("jax_processes.py",),
            makes="jax_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="tensorflow-servers",
            launcher="tensorflow",
            files=("tensorflow_servers.py", "tensorflow_servers.yaml"),
            job_file="tensorflow_servers.yaml",
            makes="servers_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="mpi-ranks",
            launcher="mpi",
            files=("mpi_ranks.py",),
            makes="mpi_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="ray-tasks",
            launcher="ray",
            files=("ray_tasks.py",),
            makes="ray_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
        Script(
            name="spark-rows",
            launcher="spark",
            files=("spark_rows.py",),
            makes="spark_weights.npy",
            **fields,  # type: ignore[arg-type] # as above
        ),
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

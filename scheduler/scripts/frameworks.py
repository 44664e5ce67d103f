"""Which frameworks a script starts that join several workers, and what they need to do so.

Workers that are started without a framework's launcher know nothing of each other: each trains alone
as rank 0 of 1, and the job looks like a success.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: A longer file is no script of somebody's.
MAX_BYTES = 512 << 10
#: More code is not parsed: that takes seconds, and much memory, of who answers everybody.
MAX_SOURCE_CHARACTERS = 64 << 10
#: Programs that start workers themselves.
PROGRAMS = frozenset(
    {"torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec", "srun", "prun"}
)
#: As in :mod:`..launchers`, which this does not import.
PLAIN = "plain"
_MPI_LAUNCHER = "Choose the launcher mpi."


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """One that joins several workers."""

    name: str
    advice: str
    #: Launchers of ours that give it what it needs, the one to propose first.
    launchers: tuple[str, ...] = ()
    #: Arguments that make it find the others by itself.
    explicit: bool = False


_TORCH = Framework(
    name="torch.distributed",
    advice="Choose the launcher torchrun.",
    launchers=("torchrun", "accelerate", "deepspeed"),
)
_ACCELERATE = Framework(
    name="Accelerate",
    advice="Choose the launcher accelerate.",
    launchers=("accelerate", "torchrun", "deepspeed"),
)
_DEEPSPEED = Framework(
    name="DeepSpeed",
    advice="Choose the launcher deepspeed.",
    launchers=("deepspeed", "torchrun", "accelerate"),
)
_JAX = Framework(
    name="jax.distributed",
    advice="Choose the launcher jax.",
    launchers=("jax",),
    explicit=True,
)
_TENSORFLOW = Framework(
    name="MultiWorkerMirroredStrategy",
    advice="Choose the launcher tensorflow.",
    launchers=("tensorflow",),
)
_HUGGING_FACE = Framework(
    name="a Trainer of Hugging Face",
    advice="Choose the launcher torchrun.",
    launchers=("torchrun", "accelerate", "deepspeed"),
)
_LIGHTNING = Framework(
    name="a Trainer of Lightning",
    advice="Choose the launcher torchrun, and give its Trainer num_nodes.",
    launchers=("torchrun",),
)
_OWN_TRAINERS = {
    "megatron": Framework(
        name="Megatron-LM's training",
        advice="Choose the launcher torchrun.",
        launchers=("torchrun",),
    ),
    "torchtitan": Framework(
        name="torchtitan's training",
        advice="Choose the launcher torchrun.",
        launchers=("torchrun",),
    ),
}
_HOROVOD = Framework(name="Horovod", advice=_MPI_LAUNCHER, launchers=("mpi",))
_MPI = Framework(name="MPI", advice=_MPI_LAUNCHER, launchers=("mpi",))
_RAY = Framework(name="Ray", advice="Choose the launcher ray.", launchers=("ray",), explicit=True)
_SPARK = Framework(name="Spark", advice="Choose the launcher spark.", launchers=("spark",))
_SERVERS = Framework(
    name="ParameterServerStrategy",
    advice="Choose the launcher tensorflow, and name roles chief, worker and ps.",
    launchers=("tensorflow",),
)
_CALLS = {
    "torch.distributed.init_process_group": _TORCH,
    "torch.distributed.distributed_c10d.init_process_group": _TORCH,
    "torch.distributed.device_mesh.init_device_mesh": _TORCH,
    "accelerate.Accelerator": _ACCELERATE,
    "accelerate.PartialState": _ACCELERATE,
    "deepspeed.initialize": _DEEPSPEED,
    "deepspeed.init_distributed": _DEEPSPEED,
    "jax.distributed.initialize": _JAX,
    "tensorflow.distribute.MultiWorkerMirroredStrategy": _TENSORFLOW,
    "tensorflow.distribute.experimental.MultiWorkerMirroredStrategy": _TENSORFLOW,
    "tensorflow.distribute.ParameterServerStrategy": _SERVERS,
    "tensorflow.distribute.experimental.ParameterServerStrategy": _SERVERS,
    "ray.init": _RAY,
}
#: A session of Spark is built by a chain of calls, which may begin with any of its options.
_IMPORTS = {
    "mpi4py.MPI": _MPI,
    "pyspark.SparkContext": _SPARK,
    "pyspark.sql.SparkSession": _SPARK,
}
#: Packages whose trainers (``SFTTrainer``, ``SentenceTransformerTrainer``, …) start torch.distributed by themselves.
_WITH_TRAINERS = {
    **dict.fromkeys(
        ("transformers", "trl", "sentence_transformers", "setfit", "adapters", "optimum"),
        _HUGGING_FACE,
    ),
    **dict.fromkeys(("lightning", "pytorch_lightning"), _LIGHTNING),
}
#: What trains, and the launcher that would join its workers; of several the first here is named.
_TRAINS = {
    # Joins the GPUs of one machine by itself, and no others.
    "ultralytics": "",
    "jax": "jax",
    "flax": "jax",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "torch": "torchrun",
    **dict.fromkeys([*_WITH_TRAINERS, "peft", "unsloth", "fastai"], "torchrun"),
}
#: Modules that read the command line as these programs do; parts of them used alone do not.
_READ_ARGUMENTS = {
    "megatron.training": "megatron",
    "torchtitan.train": "torchtitan",
    "torchtitan.config": "torchtitan",
    "torchtitan.config_manager": "torchtitan",
}
_OURS = "gpucommons.scheduler"
_IMPORTS_OURS = re.compile(r"^[ \t]*(?:import|from)[ \t]+gpucommons\.scheduler\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Where a script starts one."""

    framework: Framework
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """What was read of one."""

    starts: tuple[Start, ...] = ()
    #: What it imports that trains: ``torch``; "" where it imports none, or joins its workers by itself.
    trains_with: str = ""
    #: It imports something of ours.
    uses_ours: bool = False
    #: Whose arguments it takes: ``megatron`` or ``torchtitan``; "" for nobody's.
    takes: str = ""
    #: So much code that it was not parsed.
    is_long: bool = False


#: By code that is none or too deep, and by a document that is no notebook.
_NOT_READ = (
    *(SyntaxError, ValueError, RecursionError, MemoryError),
    *(AttributeError, KeyError, TypeError),
)


def read_script(name: str, content: bytes) -> Script:
    """Read a script, or the code cells of a notebook; of what cannot be read nothing is known."""
    if len(content) > MAX_BYTES or not name.endswith((".py", ".ipynb")):
        return Script(is_long=len(content) > MAX_BYTES)
    try:
        text = _cells(content) if name.endswith(".ipynb") else content.decode()
        if len(text) > MAX_SOURCE_CHARACTERS:
            return Script(uses_ours=_IMPORTS_OURS.search(text) is not None, is_long=True)
        tree = ast.parse(text)
        names = _imported(tree)
        trains_with = _trains_with(tree, names)
        found = sorted(_starts(tree, names), key=lambda start: start.line)
    except _NOT_READ:
        return Script()
    once = {start.framework.name: start for start in reversed(found)}
    uses_ours = any(full == _OURS or full.startswith(f"{_OURS}.") for full in names.values())
    return Script(
        starts=tuple(sorted(once.values(), key=lambda start: start.line)),
        trains_with=trains_with,
        uses_ours=uses_ours,
        takes=_takes(names),
    )


def warnings(name: str, script: Script, *, workers: int, launcher: str) -> list[str]:
    """What goes wrong with several workers, and what to do; nothing where all is well."""
    if workers <= 1:
        return []
    found = [
        sentence(name, start)
        for start in script.starts
        if launcher not in start.framework.launchers
    ]
    alone = each_alone(name, script)
    return [alone] if alone is not None and launcher == PLAIN else found


def each_alone(name: str, script: Script) -> str | None:
    """What may go wrong where several workers of a script that trains have no launcher; None where it says how they join."""
    if script.starts or not script.trains_with:
        return None
    launcher = _TRAINS[script.trains_with]
    choose = f"choose {launcher}, or " if launcher else ""
    return (
        f"{name} imports {script.trains_with}, and without a launcher (plain) each worker may train alone, as"
        f" rank 0 of 1: {choose}ask for one worker with more GPUs."
    )


def sentence(name: str, start: Start) -> str:
    """What goes wrong, and what to do."""
    return (
        f"{where(name, start)} starts {start.framework.name}. Without its launcher the workers do not find each"
        f" other: each runs as a job of one. {start.framework.advice}"
    )


def where(name: str, start: Start) -> str:
    """``train.py (line 3)``."""
    return name if name.endswith(".ipynb") else f"{name} (line {start.line})"


def script_in(command: list[str] | tuple[str, ...]) -> str | None:
    """The file that a command runs with Python, below the working folder; None where it is none."""
    words = [word for word in command if word]
    if not words or words[0].rpartition("/")[2] in PROGRAMS:
        return None
    found = next((word for word in words if word.endswith((".py", ".ipynb"))), None)
    if found is None and words[:3] == ["python", "-u", "-m"] and words[3:]:
        return f"{words[3].replace('.', '/')}/__main__.py"
    return found


def _cells(content: bytes) -> str:
    """The code of a notebook; lines for IPython alone are left out, so that the rest can be read."""
    notebook: Any = json.loads(content)
    sources = []
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            source = cell["source"]
            text = "".join(source) if isinstance(source, list) else str(source)
            lines = [_python_line(line) for line in text.splitlines()]
            if not text.lstrip().startswith("%%"):
                sources.append("\n".join(lines))
    return "\n".join(sources)


def _python_line(line: str) -> str:
    code = line.lstrip()
    return f"{line[: len(line) - len(code)]}pass" if code[:1] in ("%", "!") else line


def _imported(tree: ast.AST) -> dict[str, str]:
    """Local names, and what they mean: ``dist`` → ``torch.distributed``."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                names[bound] = alias.name if alias.asname else bound
                # Imported as a whole, it is ours too.
                names[alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for node in sorted(classes, key=lambda one: one.lineno):
        for base in node.bases:
            if _framework(full := _full_name(base, names)) is not None:
                # A trainer of one's own starts what the one below it starts.
                names[node.name] = full
    return names


def _trains_with(tree: ast.AST, names: dict[str, str]) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            found = _framework(_full_name(node.func, names))
            if found is not None and found.explicit:
                return ""
    imported = {full.partition(".")[0] for full in names.values()}
    return next((package for package in _TRAINS if package in imported), "")


def _starts(tree: ast.AST, names: dict[str, str]) -> Iterator[Start]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found = _framework(_full_name(node.func, names))
            if found is not None and not (found.explicit and (node.args or node.keywords)):
                yield Start(framework=found, line=node.lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for alias in node.names:
                full = f"{module}.{alias.name}" if module else alias.name
                found = _IMPORTS.get(full) or _OWN_TRAINERS.get(_takes({"": full}))
                if found is not None:
                    yield Start(framework=found, line=node.lineno)


def _takes(names: dict[str, str]) -> str:
    """By what it imports that reads the command line."""
    for full in names.values():
        for module, takes in _READ_ARGUMENTS.items():
            if full == module or full.startswith(f"{module}."):
                return takes
    return ""


def _framework(name: str) -> Framework | None:
    if name.startswith("horovod.") and name.endswith(".init"):
        return _HOROVOD
    package, _, rest = name.partition(".")
    if rest.endswith("Trainer") and package in _WITH_TRAINERS:
        return _WITH_TRAINERS[package]
    return _CALLS.get(name)


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    """``dist.init_process_group`` → ``torch.distributed.init_process_group``."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])

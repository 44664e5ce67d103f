"""Run a notebook as a job: ``python -m gpucommons.scheduler.training.notebook train.ipynb``.

The snapshot's notebook is executed cell by cell; what cells print goes to the job's log at once, and
the executed copy lies with the results, also after an error, up to the cell that failed. It has the
job's name: results come back to the notebook's folder, where its owner goes on writing meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_core.paths import jupyter_runtime_dir
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from traitlets import TraitError

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.in_pod.worker import STOPPED
from gpucommons.scheduler.scripts.parameters import INJECTED, TAG, cell_source, check_parameters
from gpucommons.scheduler.training.cell_numbers import shown_numbers, with_numbers
from gpucommons.scheduler.training.run import Run, current

_NAMES = uuid.UUID("6f0f3f0e-8a3b-4f0e-9d55-2f7a5f1c7a11")
#: So many of its characters tell a user's jobs apart.
_NAME = 12


class _Printing(NotebookClient):
    """Prints what cells print, while they run."""

    #: Runs the cells; None = the kernel that the notebook names.
    python: str | None = None

    def create_kernel_manager(self) -> Any:
        """Encrypt the kernel's sockets where it can: others of this machine might listen."""
        manager = super().create_kernel_manager()
        if self.python is not None:
            # By its path: the job's environment was chosen, whatever kernels are called here.
            manager._kernel_spec = KernelSpec(
                argv=[self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                display_name=self.python,
                language="python",
            )
        spec = manager.kernel_spec
        if spec is not None and spec.language == "python":
            _join_by_files(manager)
        if manager.has_trait("transport_encryption"):
            # Refused where ZeroMQ was built without encryption; the kernel's own warning stays then.
            with contextlib.suppress(TraitError):
                manager.transport_encryption = "auto"
        return manager

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """See :class:`NotebookClient`."""
        content = msg["content"]
        if msg["msg_type"] == "stream":
            sys.stdout.write(content["text"])
        elif msg["msg_type"] in ("execute_result", "display_data"):
            text = str(content["data"].get("text/plain", ""))
            # What has nothing to say in a log, as our own widgets, takes no line of it.
            sys.stdout.write(f"{text}\n" if text else "")
        sys.stdout.flush()
        return super().process_message(msg, cell, cell_index)

    def stop_kernel(self) -> None:
        """Hand SIGTERM on: a kernel lives in a session of its own, so the job's signal misses it."""
        pid = getattr(getattr(self.km, "provisioner", None), "pid", None)
        if pid is not None:
            os.kill(pid, signal.SIGTERM)


def _join_by_files(manager: Any) -> None:
    """Have it and its kernel talk by sockets in the file system, unlike ports these can be saved with them.

    Beside where Jupyter keeps such files, so that they are there in a pod that has the same home. All
    attempts of a job have the same names: those that a killed one left are removed by the next.
    """
    file = Path(jupyter_runtime_dir()) / f"kernel-{_own_name(os.environ)}.json"
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in file.parent.glob(f"{file.stem}-ipc-*"):
            left.unlink()
    if _holds_socket(file.with_name(f"{file.stem}-ipc-5")):
        manager.connection_file, manager.transport = str(file), "ipc"


def _own_name(environ: Mapping[str, str]) -> str:
    """Of a job's worker; short, as a socket's path may have 107 characters and homes lie deep."""
    job, rank = environ.get("GPUCOMMONS_JOB_ID"), environ.get("GPUCOMMONS_RANK", "0")
    name = uuid.uuid5(_NAMES, f"{job}/{rank}") if job else uuid.uuid4()
    return name.hex[:_NAME]


def _holds_socket(path: Path) -> bool:
    """Not where its name is too long, the folder is another's, or a file system (CIFS) has no sockets."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.bind(str(path))
        except OSError:
            return False
    path.unlink()
    return True


def for_job(
    notebook: Any, function: str | None, parameters: Mapping[str, Any] | None = None
) -> Any:
    """The cells that a job runs.

    Those tagged ``no-job`` are left out, parameters are set after the cell tagged ``parameters``, and
    one that calls ``function(resume_dir)`` is the last.
    """
    cells = [cell for cell in notebook.cells if "no-job" not in cell.metadata.get("tags", ())]
    if parameters:
        # One of an earlier run would set them back.
        cells = [cell for cell in cells if INJECTED not in cell.metadata.get("tags", ())]
        place = next(
            (n for n, cell in enumerate(cells, 1) if TAG in cell.metadata.get("tags", ())), 0
        )
        injected = nbformat.v4.new_code_cell(cell_source(parameters))  # type: ignore[no-untyped-call] # nbformat
        injected.metadata["tags"] = [INJECTED]
        cells.insert(place, injected)
    if function is not None:
        call = (
            "from gpucommons.scheduler import training as _training\n"
            f"{function}(_training.current().resume_dir)"
        )
        cells.append(nbformat.v4.new_code_cell(call))  # type: ignore[no-untyped-call] # nbformat
    notebook.cells = cells
    return notebook


def copy_name(path: Path, job: str | None) -> str:
    """The executed copy's file name: nothing that an owner's own notebook is called."""
    return f"{job or path.stem}.out{path.suffix}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """What is executed, and how."""

    notebook: Any
    #: The executed copy's name.
    copy: str
    #: Runs the cells instead of the notebook's kernel.
    python: str | None = None
    #: From the kernel's number of a cell to the notebook's.
    numbers: Mapping[int, int] = field(default_factory=dict)


def execute(job: Execution, folder: Path, *, run: Run) -> int:
    """Execute a notebook in its folder; returns the exit code."""
    notebook = job.notebook
    client = _Printing(
        notebook,
        timeout=None,
        kernel_name=notebook.metadata.get("kernelspec", {}).get("name", "python3"),
        resources={"metadata": {"path": str(folder.resolve())}},
    )
    client.python = job.python

    def hear_signals(**_notebook: Any) -> None:
        # nbclient would kill the kernel on SIGTERM; ours lets it save first.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        run.on_sigterm(client.stop_kernel)

    client.on_notebook_start = hear_signals
    try:
        client.execute()
    except (CellExecutionError, DeadKernelError) as error:
        if run.should_stop:
            # A kernel that was told to leave ends in the middle of a cell.
            return STOPPED
        sys.stderr.write(f"{with_numbers(str(error), job.numbers)}\n")
        return 1
    finally:
        nbformat.write(notebook, run.results_dir / job.copy)  # type: ignore[no-untyped-call] # nbformat
    if not run.was_told:
        # Every cell has run to its end, also where a signal came meanwhile.
        run.finished()
    return 0


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Run a notebook as a job.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--function", help="after the cells, call this with the folder to resume")
    parser.add_argument("--parameters", default="{}", help="values by name, as JSON")
    arguments = parser.parse_args()
    function = arguments.function
    if function is not None and not function.isidentifier():
        parser.error(f"{function!r} is not the name of a function.")
    copy = copy_name(arguments.notebook, os.environ.get("GPUCOMMONS_JOB_NAME"))
    path: Path = arguments.notebook
    parameters = _parameters(parser, path, arguments.parameters)
    read = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call] # nbformat
    cells = read.cells
    notebook = for_job(read, function, parameters)
    job = Execution(
        notebook=notebook,
        copy=copy,
        python=os.environ.get("GPUCOMMONS_KERNEL_PYTHON"),
        numbers=shown_numbers(cells, notebook.cells),
    )
    sys.exit(execute(job, path.parent, run=current()))


def _parameters(parser: argparse.ArgumentParser, path: Path, text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
        if not isinstance(given, dict):
            parser.error("--parameters must be a JSON object, values by name.")
        check_parameters(path.name, path.read_bytes(), given)
    except (ValueError, BadRequest) as error:
        parser.error(str(error))
    return given


if __name__ == "__main__":
    main()

"""A notebook as a job: real kernels."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from kernel_server import criu_of_tests

from gpucommons.gpu.hibernation.criu import find_criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Saved
from gpucommons.scheduler.failures import Failure, headline
from gpucommons.scheduler.training.cell_numbers import shown_numbers, with_numbers
from gpucommons.scheduler.training.notebook import _join_by_files, for_job


def write(path: Path, *sources: str) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpucommons.scheduler.training.notebook", *arguments]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=90, check=False
    )


def test_output_goes_to_the_log_and_the_executed_copy_to_the_results(tmp_path: Path) -> None:
    write(tmp_path / "train.ipynb", "x = 6 * 7\nprint('answer', x)")

    done = run(tmp_path, "train.ipynb")

    assert done.returncode == 0, done.stderr
    assert "answer 42" in done.stdout
    executed = nbformat.read(tmp_path / "results" / "train.out.ipynb", as_version=4)
    assert executed.cells[0].outputs[0].text == "answer 42\n"


def test_the_executed_copy_has_the_jobs_name_and_not_the_notebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOMMONS_JOB_NAME", "train-3")
    write(tmp_path / "train.ipynb", "pass")

    assert run(tmp_path, "train.ipynb").returncode == 0
    # Results are copied into the notebook's folder, over what is called the same.
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["train-3.out.ipynb"]


def test_the_log_holds_what_cells_say_and_nothing_else(tmp_path: Path) -> None:
    write(
        tmp_path / "train.ipynb",
        "from gpucommons.labextension import GpuMonitor, TrainPanel\n"
        "environ = {'GPUCOMMONS_JOB_ID': 'j-1'}\n"
        "def train(resume_dir): pass\n"
        "GpuMonitor(environ=environ)",
        "TrainPanel(train, environ=environ)",
        "print('answer')",
    )

    done = run(tmp_path, "train.ipynb")

    assert done.stdout == "answer\n"
    assert done.stderr == ""


def test_a_failing_cell_fails_the_job_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    write(tmp_path / "train.ipynb", "1 / 0", "print('never')")

    done = run(tmp_path, "train.ipynb")

    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "never" not in done.stdout


def test_an_error_names_the_cell_as_the_notebook_counts_it(tmp_path: Path) -> None:
    cells = [
        tagged("a = 1", "parameters"),
        tagged("plot()", "no-job"),
        tagged(""),
        tagged("def train(resume_dir):\n    return a / 0"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "train.ipynb")

    done = run(tmp_path, "train.ipynb", "--parameters", '{"a":2}', "--function", "train")

    failure = Failure(tail=done.stderr, exit_code=done.returncode)
    assert headline(failure) == "ZeroDivisionError: division by zero (cell 3, line 2)"


def test_of_a_cell_that_the_job_added_no_number_is_told() -> None:
    cells = [tagged("x = 1")]
    numbers = shown_numbers(cells, [*cells, tagged("train(x)")])

    colours = "Cell \x1b[32mIn[1]\x1b[39m, line 1"
    assert with_numbers(colours, numbers) == colours
    assert with_numbers("Cell In[2], line 1", numbers) == "Cell In[added by the job], line 1"


def test_a_named_function_is_called_with_the_folder_to_resume(tmp_path: Path) -> None:
    write(tmp_path / "train.ipynb", "def train(resume_dir):\n    print('resume', resume_dir)")

    done = run(tmp_path, "train.ipynb", "--function", "train")

    assert "resume None" in done.stdout


def test_a_function_name_that_is_code_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.ipynb", "pass")

    done = run(tmp_path, "train.ipynb", "--function", "print(1)#")

    assert done.returncode == 2
    assert "is not the name of a function" in done.stderr


def a_notebook_with_a_plot() -> nbformat.NotebookNode:
    skipped = nbformat.v4.new_code_cell("plot()", metadata={"tags": ["no-job"]})
    return nbformat.v4.new_notebook(cells=[skipped, nbformat.v4.new_code_cell("x = 1")])


def test_cells_tagged_no_job_are_left_out() -> None:
    with_function = [cell.source for cell in for_job(a_notebook_with_a_plot(), "train").cells]
    without = [cell.source for cell in for_job(a_notebook_with_a_plot(), None).cells]

    assert with_function[0] == "x = 1"
    assert with_function[1].endswith("train(_training.current().resume_dir)")
    assert without == ["x = 1"]


def tagged(source: str, *tags: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})


def test_parameters_are_set_right_after_the_cell_with_the_defaults(tmp_path: Path) -> None:
    cells = [
        tagged("import math"),
        tagged("alpha = 1\nname = 'x'", "parameters"),
        tagged("alpha = 7", "injected-parameters"),
        tagged("print(alpha, name)"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "train.ipynb")

    done = run(tmp_path, "train.ipynb", "--parameters", '{"alpha":0.5}')

    assert done.stdout == "0.5 x\n", done.stderr
    executed = nbformat.read(tmp_path / "results" / "train.out.ipynb", as_version=4)
    assert executed.cells[2].source == "# Parameters\nalpha = 0.5"
    assert executed.cells[2].metadata["tags"] == ["injected-parameters"]


@pytest.mark.parametrize(
    ("given", "says"),
    [('{"beta":1}', "sets: alpha."), ("[1]", "must be a JSON object"), ("{", "Expecting")],
)
def test_parameters_that_would_be_lost_stop_the_job_at_its_start(
    tmp_path: Path, given: str, says: str
) -> None:
    notebook = nbformat.v4.new_notebook(cells=[tagged("alpha = 1", "parameters")])
    nbformat.write(notebook, tmp_path / "train.ipynb")

    done = run(tmp_path, "train.ipynb", "--parameters", given)

    assert done.returncode == 2
    assert says in done.stderr


def test_cells_run_in_the_environment_that_was_chosen_whatever_kernel_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "ours.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p))
    monkeypatch.setenv("GPUCOMMONS_KERNEL_PYTHON", str(tmp_path / "env" / "bin" / "python3"))
    write(tmp_path / "train.ipynb", "import sys\nprint(sys.prefix)")

    done = run(tmp_path, "train.ipynb")

    assert done.stdout == f"{tmp_path / 'env'}\n", done.stderr


def test_a_stop_signal_reaches_the_kernel_and_the_job_leaves_as_stopped(tmp_path: Path) -> None:
    write(
        tmp_path / "train.ipynb",
        "from gpucommons.scheduler import training\n"
        "run = training.current()\n"
        "print('ready')\n"
        "while not run.should_stop:\n"
        "    run.wait(600)\n"
        "print('saved')\n"
        "run.stop_now()",
    )
    process = subprocess.Popen(
        command("train.ipynb"), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 143
    assert "saved" in output


class Unheld(socket.socket):
    """As on a file system that has no sockets."""

    def bind(self, _address: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")


@pytest.mark.parametrize(("kind", "transport"), [(socket.socket, "ipc"), (Unheld, "tcp")])
def test_a_kernel_is_met_by_files_only_where_there_can_be_sockets(
    monkeypatch: pytest.MonkeyPatch, kind: type[socket.socket], transport: str
) -> None:
    manager = SimpleNamespace(transport="tcp", connection_file="")
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", folder)
        monkeypatch.setattr(socket, "socket", kind)
        _join_by_files(manager)
        assert manager.transport == transport
        assert not list(Path(folder).iterdir())


def test_a_kernel_is_met_by_files_also_in_a_deep_home(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = SimpleNamespace(transport="tcp", connection_file="")
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        # As of `gpucommons up --demo` below a state folder.
        deep = Path(folder) / ("d" * (79 - len(folder)))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(deep))
        _join_by_files(manager)
    assert manager.transport == "ipc"


def test_sockets_of_a_killed_attempt_are_removed_by_the_next_of_its_job_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def joined(job: str) -> Path:
        monkeypatch.setenv("GPUCOMMONS_JOB_ID", job)
        manager = SimpleNamespace(transport="tcp", connection_file="")
        _join_by_files(manager)
        return Path(manager.connection_file)

    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", folder)
        first, other = joined("one"), joined("two")
        for file in (first, other):
            file.with_name(f"{file.stem}-ipc-1").touch()
        assert joined("one") == first != other
        assert [path.name for path in Path(folder).iterdir()] == [f"{other.stem}-ipc-1"]


@pytest.mark.criu
def test_a_notebook_that_is_saved_in_the_middle_of_a_cell_goes_on_there(tmp_path: Path) -> None:
    criu_of_tests()
    criu = find_criu(os.environ)
    assert criu is not None
    counts = "import time\nfor n in range(40):\n    print('step', n)\n    time.sleep(0.05)"
    write(tmp_path / "train.ipynb", counts, "print('then', n)")
    tree = HibernatableTree(tmp_path / "tree", criu)
    tree.folder.mkdir(mode=0o700)

    with _started(tree.run_command(command("train.ipynb")), tmp_path) as first:
        assert first.stdout is not None
        printed = "".join(first.stdout.readline() for _ in range(5))
        saved = tree.save(60)
        assert isinstance(saved, Saved), saved
        printed += first.stdout.read()
    with _started(tree.wake_command(), tmp_path) as woken:
        assert woken.stdout is not None
        printed += woken.stdout.read()

    assert woken.returncode == 0
    # A kernel that is told to end may complain of its closed sockets (ipykernel 7): after all it had to say.
    assert printed.startswith("".join(f"step {n}\n" for n in range(40)) + "then 39\n")
    assert printed.count("step") == 40
    assert (tmp_path / "results" / "train.out.ipynb").exists()


def _started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

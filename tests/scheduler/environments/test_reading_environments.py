"""What is read of an environment, and that nothing of it runs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpucommons.scheduler.environments.finding import MAX_FOLDERS, Grounds, find, resolve
from gpucommons.scheduler.environments.looking import answer
from gpucommons.scheduler.environments.reading import (
    NoEnvironment,
    lacks,
    packages_in,
    read_environment,
)


def a_venv(folder: Path, version: str = "3.12.4", **settings: str) -> Path:
    """What ``python -m venv`` makes, with a Python that betrays when it runs."""
    (folder / "bin").mkdir(parents=True)
    lines = {"version": version, **settings}
    (folder / "pyvenv.cfg").write_text("".join(f"{k} = {v}\n" for k, v in lines.items()))
    python = folder / "bin" / "python3"
    python.write_text(f"#!/bin/sh\ntouch {folder}/was-run\n")
    python.chmod(0o755)
    (folder / "lib" / f"python{version[:4].rstrip('.')}" / "site-packages").mkdir(parents=True)
    return folder


def a_conda(folder: Path, version: str = "3.11.9") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").touch(mode=0o755)
    (folder / "conda-meta").mkdir()
    (folder / "conda-meta" / f"python-{version}-h955ad1f_0.json").write_text("{}")
    return folder


def a_kernel(folder: Path, key: str, python: str, label: str) -> None:
    place = folder / key
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(
        f'{{"argv": ["{python}", "-m", "ipykernel_launcher"], "display_name": "{label}"}}'
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def grounds(home: Path, own: str = "/nowhere") -> Grounds:
    return Grounds(home=home, kernels=(home / "kernels",), own=own)


def test_kernels_conda_and_virtual_environments_are_found_each_once(home: Path) -> None:
    torch = a_venv(home / "work" / "project" / ".venv")
    conda = a_conda(home / "miniconda" / "envs" / "vision")
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{conda}\n{home}/gone\nnonsense\n")
    a_kernel(home / "kernels", "torch", f"{torch}/bin/python3", "Torch")

    found = [(one.name, one.python, one.path) for one in find(grounds(home))]

    assert found == [("Torch", "3.12", str(torch)), ("vision", "3.11", str(conda))]
    assert not (torch / "was-run").exists()


def test_an_environment_is_called_after_its_prompt_or_its_projects_folder(home: Path) -> None:
    assert read_environment(str(a_venv(home / "digits" / ".venv"))).name == "digits"
    assert read_environment(str(a_venv(home / "a", prompt="'nice'"))).name == "nice"
    assert read_environment(str(a_venv(home / "b"))).text() == "b (Python 3.12)"


@pytest.mark.parametrize("asked", ["torch", "Torch 2", "{home}/torch", "~/torch", "{home}/link"])
@pytest.mark.parametrize("tail", ["", "/bin/python3"])
def test_names_paths_and_links_are_one_environment(home: Path, asked: str, tail: str) -> None:
    folder = a_venv(home / "torch")
    (home / "link").symlink_to(folder)
    a_kernel(home / "kernels", "torch", f"{home}/link/bin/python3", "Torch 2")
    found = resolve(asked.format(home=home) + (tail if "/" in asked else ""), grounds(home))
    assert found is not None
    assert found.path == str(folder)


def test_the_services_own_environment_is_the_default(home: Path) -> None:
    folder = a_venv(home / "own")
    (home / "link").symlink_to(folder)
    assert resolve(str(home / "link"), grounds(home, own=str(folder))) is None
    assert resolve("", grounds(home)) is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("gone", "There is no environment called gone. Known: one, two."),
        ("{home}/gone", "it is not there"),
        ("{home}/plain", "it has no bin/python3 that can be run"),
        ("{home}/orphan", "bin/python3 leads to /opt/python-gone/bin/python3, which is not there"),
        ("work/.venv", "a path from an unknown folder: begin it with / or ~/"),
        ("../one", "begin it with / or ~/"),
        ("{home}/loop", "it is not there"),
        ("twice", "name one by its path"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(home: Path, asked: str, says: str) -> None:
    a_venv(home / "one")
    if asked == "twice":
        a_venv(home / "x" / "twice")
        a_venv(home / "y" / "twice")
    else:
        a_venv(home / "two")
    (home / "plain").mkdir()
    (home / "loop").symlink_to(home / "loop")
    (home / "orphan" / "bin").mkdir(parents=True)
    (home / "orphan" / "bin" / "python3").symlink_to("/opt/python-gone/bin/python3")
    with pytest.raises(NoEnvironment) as refused:
        resolve(asked.format(home=home), grounds(home))
    assert says in str(refused.value)


def test_hostile_files_are_neither_waited_for_nor_followed(home: Path) -> None:
    folder = a_venv(home / "odd")
    (folder / "pyvenv.cfg").unlink()
    os.mkfifo(folder / "pyvenv.cfg")
    (home / ".conda").mkdir()
    os.mkfifo(home / ".conda" / "environments.txt")
    (home / "kernels" / "k").mkdir(parents=True)
    (home / "kernels" / "k" / "kernel.json").write_text("[" * 5000)
    (home / "up").symlink_to("/")
    assert [one.path for one in find(grounds(home))] == [str(folder)]


def test_a_home_with_very_many_folders_is_looked_at_only_so_far(home: Path) -> None:
    for number in range(40):
        (home / f"a{number:03}" / "b").mkdir(parents=True)
    for name in (".hidden", "node_modules"):
        a_venv(home / name / "venv")
    a_venv(home / "a" / "b" / "c" / "d" / "too-deep")
    assert find(grounds(home)) == []
    assert MAX_FOLDERS < 10_000


def test_packages_are_read_from_their_folders(home: Path) -> None:
    folder = a_venv(home / "torch")
    packages = folder / "lib" / "python3.12" / "site-packages"
    for name in ("torch-2.15.0.dist-info", "Foo_Bar-1.dist-info", "torch", "x.pth"):
        (packages / name).mkdir()
    assert packages_in(str(folder)) == {"foo-bar": "1", "torch": "2.15.0"}
    assert lacks(str(folder), "ipykernel")
    assert not lacks(str(folder), "torch")


def test_what_may_come_from_elsewhere_is_not_known_to_lack(home: Path) -> None:
    folder = a_venv(home / "torch", **{"include-system-site-packages": "true"})
    assert not lacks(str(folder), "ipykernel")


@pytest.mark.parametrize(
    "lead", ["{elsewhere}\n", "# mine\n{elsewhere}\n", "../../../../elsewhere\n"]
)
def test_what_a_file_of_paths_leads_to_is_there(home: Path, lead: str) -> None:
    folder, elsewhere = a_venv(home / "torch"), home / "elsewhere"
    (elsewhere / "torch").mkdir(parents=True)
    packages = folder / "lib" / "python3.12" / "site-packages"
    (packages / "hooks.pth").write_text("import torch\n")
    assert lacks(str(folder), "torch")
    (packages / "more.pth").write_text(lead.format(elsewhere=elsewhere))
    assert not lacks(str(folder), "torch")


def test_only_virtual_environments_are_closed_to_packages_of_the_home(home: Path) -> None:
    own = home / ".local" / "lib" / "python3.11" / "site-packages"
    (own / "torch").mkdir(parents=True)
    closed, open_ = a_venv(home / "closed"), a_conda(home / "conda")
    (open_ / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    assert lacks(str(closed), "torch", home=home)
    assert not lacks(str(open_), "torch", home=home)
    assert lacks(str(open_), "ray", home=home)


def settle(home: Path, **changes: object) -> dict[str, object]:
    question = {
        "what": "settle",
        "asked": str(home / "torch"),
        "programs": [],
        "search": "",
        "runs_notebook": False,
        "uses_training": False,
        "joining": None,
    }
    return answer({**question, **changes}, grounds(home))


def test_a_program_is_looked_for_in_the_environment_first(home: Path) -> None:
    program = a_venv(home / "torch") / "bin" / "torchrun"
    program.touch(mode=0o755)
    assert settle(home, programs=["torchrun"]) == {"path": str(home / "torch")}
    assert settle(home, programs=["sh"], search="/bin:/usr/bin") == {"path": str(home / "torch")}
    program.chmod(stat.S_IRUSR)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"programs": ["torchrun"]}, "There is no command 'torchrun' in torch (Python 3.12) ("),
        ({"programs": ["cd x && ls"]}, "put a shell in front"),
        ({"programs": ["A=1"]}, "set a variable with env"),
        ({"runs_notebook": True}, "A notebook needs ipykernel in torch (Python 3.12)"),
        (
            {"asked": "old", "uses_training": True},
            "needs Python 3.10, and old (Python 3.9) is older",
        ),
    ],
)
def test_what_an_environment_lacks_is_said_before_anything_starts(
    home: Path, changes: dict[str, object], says: str
) -> None:
    a_venv(home / "torch")
    a_venv(home / "old", version="3.9.1")
    assert says in str(settle(home, **changes)["refused"])
    assert not (home / "torch" / "was-run").exists()


JOINING = {"launcher": "torchrun", "module": "torch", "program": ""}


def test_a_launcher_whose_framework_is_missing_says_which_where_and_what_to_do(home: Path) -> None:
    folder = a_venv(home / "torch")
    packages = folder / "lib" / "python3.12" / "site-packages"
    assert settle(home, joining=JOINING)["refused"] == (
        f"The launcher torchrun needs torch, and torch (Python 3.12) ({folder}) has none: install it there"
        f" ({folder}/bin/python3 -m pip install torch), choose an environment that has it, or another"
        " launcher."
    )
    (packages / "torch").mkdir()
    assert settle(home, joining=JOINING) == {"path": str(folder)}


def test_nobody_is_told_to_install_into_the_default_environment(home: Path) -> None:
    own = a_venv(home / "own")
    mpi = {"launcher": "mpi", "module": "", "program": "mpirun"}
    question = {"what": "settle", "asked": "", "programs": [], "search": "/nowhere"}
    found = answer({**question, "joining": mpi}, grounds(home, str(own)))
    assert found["refused"] == (
        f"The launcher mpi needs mpirun, and the default environment ({own}) has none: choose an environment"
        " that has it, or another launcher."
    )
    (own / "bin" / "mpirun").touch(mode=0o755)
    assert answer({**question, "joining": mpi}, grounds(home, str(own))) == {"path": ""}

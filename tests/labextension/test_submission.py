from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import NoSuchKernel

from gpucommons.labextension import packages
from gpucommons.labextension.submission import Desk
from gpucommons.scheduler.client.submission import results_below

#: What runs these tests.
OWN = os.path.realpath(sys.prefix)
NOTEBOOK: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3"}},
    "cells": [],
}


def put_notebook(served: Any, path: str = "work/train.ipynb", **metadata: Any) -> Path:
    file = Path(served.root / path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**NOTEBOOK, "metadata": metadata or NOTEBOOK["metadata"]}))
    return file


def put_script(served: Any, path: str) -> None:
    file = Path(served.root / path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("print(1)\n")


def unpack(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr] # regular files


async def test_the_preview_lists_what_comes_along_and_what_stays(served: Any) -> None:
    notebook = put_notebook(served)
    (notebook.parent / "model.py").write_text("x = 1\n")
    (notebook.parent / ".env").write_text("SECRET=1")
    answer = await served.http.get("gpucommons/files", params={"path": "work/train.ipynb"})
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert [file["path"] for file in view["files"]] == ["model.py", "train.ipynb"]
    assert view["size_bytes"] == sum(file["size_bytes"] for file in view["files"])
    assert view["excluded"] == [
        {"path": ".env", "size_bytes": 8, "reason": "is hidden", "linkable": False}
    ]
    assert view["packages"] == []
    assert view["environment"] == OWN
    assert view["environment_name"].endswith(
        f"(Python {sys.version_info[0]}.{sys.version_info[1]})"
    )


async def test_an_environment_is_called_as_on_the_page_that_started_the_server(
    tmp_path: Path,
) -> None:
    async def kernel_spec(_name: str) -> Any:
        raise KeyError

    (tmp_path / "train.py").write_text("x = 1\n")
    desk = Desk(
        root=tmp_path, home=tmp_path, kernel_spec=kernel_spec, environment_name="Python 3.11.7"
    )
    assert (await desk.preview("train.py")).environment_name == "Python 3.11.7"


@pytest.mark.parametrize("folder", ["", "work", ".cfg/steps"])
async def test_the_folder_is_named_below_the_servers_own(served: Any, folder: str) -> None:
    put_script(served, f"{folder}/main.py".lstrip("/"))
    path = {"path": f"{folder}/main.py"}
    seen = await served.http.get("gpucommons/files", params=path)
    assert seen.json()["folder"] == folder


async def test_a_notebook_becomes_a_job_with_its_folder_and_packages(
    served: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_notebook(served)
    monkeypatch.setenv("HOME", str(served.root))
    body = {
        "path": "work/train.ipynb",
        "request": {"name": "digits", "roles": [{"milli_gpu": 500}]},
        "function": "train",
    }
    answer = await served.http.post("gpucommons/submit-file", json=body)
    assert answer.status_code == 200, answer.text
    upload = next(r for r in api.requests if r.method == "PUT")
    files = unpack(upload.content)
    assert sorted(files) == ["gpucommons-packages.txt", "train.ipynb"]
    assert b"\npytest==" in files["gpucommons-packages.txt"]
    request = api.body("/v1/jobs")
    assert request["snapshot"] == upload.url.path.removeprefix("/v1/snapshots/")
    assert request["results_to"] == "work"
    (role,) = request["roles"]
    assert role["milli_gpu"] == 500
    assert role["command"][-3:] == ["train.ipynb", "--function", "train"]


async def test_a_script_becomes_a_job(served: Any, api: Any) -> None:
    (served.root / "train.py").write_text("print(1)\n")
    answer = await served.http.post("gpucommons/submit-file", json={"path": "train.py"})
    assert answer.status_code == 200, answer.text
    assert api.body("/v1/jobs")["roles"][0]["command"] == ["python", "-u", "train.py"]


@pytest.mark.parametrize(
    ("module", "folder", "takes"),
    [
        ("main", "nlp/examples", "main.py"),
        ("examples.main", "nlp", "examples/main.py"),
        ("nlp.examples.main", "", "nlp/examples/main.py"),
        # It is installed: what the script lies beside goes along.
        ("torchtune.run", "nlp/examples", "main.py"),
    ],
)
async def test_a_module_runs_from_the_folder_that_has_it(
    served: Any, api: Any, module: str, folder: str, takes: str
) -> None:
    put_script(served, "nlp/examples/main.py")
    body = {"path": "nlp/examples/main.py", "module": module, "arguments": "--epochs 3"}
    seen = await served.http.get("gpucommons/files", params=body)
    assert (seen.json()["folder"], takes in [one["path"] for one in seen.json()["files"]]) == (
        folder,
        True,
    )
    answer = await served.http.post("gpucommons/submit-file", json=body)
    assert answer.status_code == 200, answer.text
    command = ["python", "-u", "-m", module, "--epochs", "3"]
    assert api.body("/v1/jobs")["roles"][0]["command"] == command
    upload = next(r for r in api.requests if r.method == "PUT")
    assert takes in unpack(upload.content)


@pytest.mark.parametrize(
    ("path", "module", "says"),
    [
        ("work/train.ipynb", "train", "leave module out"),
        ("work/main.py", "../main", "module"),
        ("work/main.py", "work.other", "work.other cannot be run"),
    ],
)
async def test_a_module_that_cannot_run_is_refused(
    served: Any, api: Any, path: str, module: str, says: str
) -> None:
    put_notebook(served)
    put_script(served, "work/main.py")
    body = {"path": path, "module": module}
    answer = await served.http.post("gpucommons/submit-file", json=body)
    assert (answer.status_code // 100, says in answer.text) == (4, True), answer.text
    assert [one for one in api.requests if one.method == "POST"] == []


async def test_arguments_are_split_like_a_shell_does_and_run_by_none(served: Any, api: Any) -> None:
    (served.root / "train.py").write_text("print(1)\n")
    body = {"path": "train.py", "arguments": "--name 'two words' $(rm -rf) ; ls"}
    await served.http.post("gpucommons/submit-file", json=body)
    command = api.body("/v1/jobs")["roles"][0]["command"]
    assert command[3:] == ["--name", "two words", "$(rm", "-rf)", ";", "ls"]


async def test_the_job_runs_what_was_saved_then(served: Any, api: Any) -> None:
    (served.root / "train.py").write_text("print(1)\n")
    await served.http.post("gpucommons/submit-file", json={"path": "train.py"})
    (served.root / "train.py").write_text("print(2)\n")
    upload = next(r for r in api.requests if r.method == "PUT")
    assert unpack(upload.content)["train.py"] == b"print(1)\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../outside.py", 422),
        ("work/../../outside.py", 422),
        ("/etc/passwd", 404),
        ("link.py", 422),
        ("linked/outside.py", 422),
        ("missing.py", 404),
        ("work", 422),
        ("pipe.py", 422),
        ("a\x00b", 404),
        ("data.csv", 422),
        ("", 422),
    ],
)
async def test_no_path_leads_out_of_the_servers_folder(
    served: Any, api: Any, tmp_path: Path, path: str, status: int
) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("secret")
    (served.root / "work").mkdir()
    (served.root / "link.py").symlink_to(outside)
    (served.root / "linked").symlink_to(tmp_path)
    (served.root / "data.csv").write_text("a,b\n")
    os.mkfifo(served.root / "pipe.py")
    shown = await served.http.get("gpucommons/files", params={"path": path})
    assert shown.status_code == status, shown.text
    assert shown.json()["message"]
    sent = await served.http.post("gpucommons/submit-file", json={"path": path})
    assert sent.status_code == status
    assert api.asked("PUT") == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"request": {"snapshot": "0" * 64}}, "snapshot is decided by the file"),
        ({"request": {"results_to": "elsewhere"}}, "results_to is decided by the file"),
        ({"request": {"roles": [{"command": ["sh"]}]}}, "command is decided by the file"),
        ({"request": {"roles": []}}, "exactly one"),
        ({"request": {"roles": [{}, {}]}}, "exactly one"),
        ({"request": {"roles": "x"}}, "exactly one"),
        ({"request": {"name": "Not A Name"}}, "name:"),
        ({"request": {"roles": [{"milli_gpu": 1500}]}}, "whole GPUs"),
        ({"function": "train"}, "not a function of a notebook"),
        ({"arguments": "--name 'open"}, "close every quotation mark"),
        ({"unknown": 1}, "unknown: there is no such field"),
    ],
)
async def test_a_request_that_makes_no_sense_submits_nothing(
    served: Any, api: Any, body: Any, sentence: str
) -> None:
    (served.root / "train.py").write_text("print(1)\n")
    answer = await served.http.post("gpucommons/submit-file", json={"path": "train.py", **body})
    assert answer.status_code == 422, answer.text
    assert sentence in answer.json()["message"]
    assert api.requests == []


async def test_a_function_that_is_code_is_refused(served: Any, api: Any) -> None:
    put_notebook(served)
    body = {"path": "work/train.ipynb", "function": "train); import os; os.system('x'"}
    answer = await served.http.post("gpucommons/submit-file", json=body)
    assert answer.status_code == 422
    assert api.requests == []


def an_environment(folder: Path, *packages: str) -> Path:
    """A virtual environment whose Python must not be run to look at it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").write_text(f"#!/bin/sh\ntouch {folder}/was-run\n")
    (folder / "bin" / "python3").chmod(0o755)
    (folder / "pyvenv.cfg").write_text("version = 3.12.1\n")
    for name in packages:
        place = folder / "lib" / "python3.12" / "site-packages" / f"{name}.dist-info"
        place.mkdir(parents=True)
    return folder


@pytest.fixture
def kernel(served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = an_environment(tmp_path / "torch", "torch-2.15.0", "numpy-2.4")
    spec = type("Spec", (), {"argv": [f"{folder}/bin/python3", "-m", "ipykernel_launcher"]})
    monkeypatch.setattr(served.app.kernel_spec_manager, "get_kernel_spec", lambda _name: spec)
    return folder


async def test_a_notebook_runs_in_its_kernels_environment(
    served: Any, api: Any, kernel: Path
) -> None:
    put_notebook(served, kernelspec={"name": "torch"})
    api.environments = "folder"
    view = (await served.http.get("gpucommons/files?path=work/train.ipynb")).json()
    assert (view["environment"], view["environment_name"]) == (str(kernel), "torch (Python 3.12)")
    await served.http.post("gpucommons/submit-file", json={"path": "work/train.ipynb"})
    assert api.body("/v1/jobs")["environment"] == str(kernel)
    upload = next(r for r in api.requests if r.method == "PUT")
    lock = unpack(upload.content)["gpucommons-packages.txt"]
    assert lock == b"numpy==2.4\ntorch==2.15.0\n"
    assert not (kernel / "was-run").exists()


async def test_where_jobs_run_in_images_no_folder_is_sent(
    served: Any, api: Any, kernel: Path
) -> None:
    put_notebook(served, kernelspec={"name": kernel.name})
    await served.http.post("gpucommons/submit-file", json={"path": "work/train.ipynb"})
    assert api.body("/v1/jobs")["environment"] == ""


async def test_packages_of_another_environment_are_compared_with_the_kernels(
    served: Any, kernel: Path, tmp_path: Path
) -> None:
    other = an_environment(tmp_path / "other", "torch-2.14.0")
    put_notebook(served, kernelspec={"name": kernel.name})
    query = {"path": "work/train.ipynb", "environment": str(other)}
    view = (await served.http.get("gpucommons/files", params=query)).json()
    assert view["packages"] == [
        {"name": "numpy", "here": "2.4", "job": None},
        {"name": "torch", "here": "2.15.0", "job": "2.14.0"},
    ]


async def test_parameters_are_known_before_and_refused_where_they_are_not(
    served: Any, api: Any
) -> None:
    notebook = put_notebook(served)
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "alpha = 1"}
    notebook.write_text(json.dumps({**NOTEBOOK, "cells": [cell]}))
    view = (await served.http.get("gpucommons/files?path=work/train.ipynb")).json()
    assert view["parameters"] == ["alpha"]
    body = {"path": "work/train.ipynb", "arguments": "alpha=0.5"}
    await served.http.post("gpucommons/submit-file", json=body)
    command = api.body("/v1/jobs")["roles"][0]["command"]
    assert command[-2:] == ["--parameters", '{"alpha":0.5}']
    for arguments, says in (("beta=1", "sets: alpha."), ("--x", "write NAME=VALUE")):
        answer = await served.http.post(
            "gpucommons/submit-file", json={**body, "arguments": arguments}
        )
        assert answer.status_code == 422
        assert says in answer.json()["message"]


async def test_what_large_files_become_must_be_said(
    served: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(served.root))
    (served.root / "train.py").write_text("print(1)\n")
    (served.root / "checkpoints").mkdir()
    body = {"path": "train.py"}
    refused = await served.http.post("gpucommons/submit-file", json=body)
    assert refused.status_code == 422
    assert "checkpoints would stay behind" in refused.json()["message"]
    assert api.asked("PUT") == []
    for choice, links in (("without", []), ("link", ["checkpoints"])):
        api.requests.clear()
        await served.http.post("gpucommons/submit-file", json={**body, "left_out": choice})
        assert api.body("/v1/jobs").get("links", []) == links


async def test_a_script_that_starts_a_framework_comes_with_advice(served: Any) -> None:
    (served.root / "train.py").write_text("from mpi4py import MPI\n")
    view = (await served.http.get("gpucommons/files?path=train.py")).json()
    (advice,) = view["advice"]
    assert advice["launchers"] == ["mpi"]
    assert advice["text"].startswith("train.py (line 1) starts MPI.")


@pytest.mark.parametrize("kernel", ["gone", "ir"])
async def test_kernels_that_are_not_python_show_no_packages(
    served: Any, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    def find(name: str) -> Any:
        if name == "gone":
            raise NoSuchKernel(name)
        return type("Spec", (), {"argv": ["/usr/bin/R", "--slave"]})

    monkeypatch.setattr(served.app.kernel_spec_manager, "get_kernel_spec", find)
    put_notebook(served, kernelspec={"name": kernel})
    view = (await served.http.get("gpucommons/files?path=work/train.ipynb")).json()
    assert view["packages"] == []


def test_the_environment_of_a_kernel(tmp_path: Path) -> None:
    folder = an_environment(tmp_path / "env")
    assert packages.environment_of(["python3", "-m", "x"]) == OWN
    assert packages.environment_of([f"{folder}/bin/python3.12"]) == str(folder)
    assert packages.environment_of(["/bin/bash", "-c", "x"]) is None
    assert packages.environment_of([f"{tmp_path}/gone/bin/python"]) is None
    assert packages.environment_of([]) is None


def test_results_outside_the_home_stay_with_the_job(tmp_path: Path) -> None:
    (tmp_path / "home" / "a").mkdir(parents=True)
    assert results_below(tmp_path / "home", tmp_path / "home" / "a") == "a"
    assert results_below(tmp_path / "home", tmp_path) is None

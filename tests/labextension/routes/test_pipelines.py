"""A file of steps is shown and run from JupyterLab as from a terminal, and nothing outside of the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth.authorizer import Authorizer

from gpucommons.labextension.routes import pipelines
from gpucommons.scheduler.client import snapshot
from gpucommons.scheduler.client.snapshot import Packed, pack

#: No file's name may be so long.
LONG = "a" * 5000
FILE = """
name: nightly
steps:
  report: {run: report.py, after: {train: any}}
  train:
    run: train.py
    roles: [{milli_gpu: 500}]
    inputs: [clean/data.csv]
    each: {SEED: [1, 2]}
  clean: {run: clean.py}
"""


def put_files(served: Any, text: str = FILE) -> None:
    folder = served.root / "work"
    folder.mkdir()
    for name in ("clean.py", "train.py", "report.py"):
        (folder / name).write_text("print('epoch 1')\n")
    (folder / "checkpoints").mkdir()
    (folder / "pipeline.yaml").write_text(text)


async def test_a_file_is_shown_in_the_order_of_its_steps_with_what_stays_behind(
    served: Any, api: Any
) -> None:
    put_files(served)
    seen = await served.http.get("gpucommons/pipeline", params={"path": "work/pipeline.yaml"})
    assert seen.status_code == 200, seen.text
    view = seen.json()
    assert [(one["name"], one["copies"]) for one in view["steps"]] == [
        ("clean", 1),
        ("train", 2),
        ("report", 1),
    ]
    assert view["steps"][1]["runs"] == ["½ GPU: python -u train.py"]
    assert view["steps"][1]["inputs"] == ["clean/data.csv"]
    assert view["steps"][2]["after"] == {"train": "any"}
    (folder,) = view["folders"]
    assert (folder["folder"], folder["files"], folder["linked"]) == ("work", 4, False)
    assert [one["path"] for one in folder["excluded"]] == ["checkpoints"]
    assert api.requests == []


async def test_all_that_a_step_runs_with_is_shown(served: Any, api: Any) -> None:
    put_files(
        served,
        f"""
steps:
  a:
    folder: none
    roles: [{{command: ["true"]}}, {{name: second, count: 2, command: [sh, -c, {"x" * 300} | sh]}}]
    environment: registry/image:1
    secrets: {{TOKEN: hugging-face}}
    env: {{BASH_ENV: other.sh}}
    links: [raw]
    links_from: data
    results_to: elsewhere
""",
    )
    seen = await served.http.get("gpucommons/pipeline", params={"path": "work/pipeline.yaml"})
    assert seen.status_code == 200, seen.text
    (step,) = seen.json()["steps"]
    assert step["runs"] == [
        "worker: CPU only: true",
        f"second: 2 × CPU only: sh -c '{'x' * 300} | sh'",
    ]
    assert step["environment"] == "registry/image:1"
    assert (step["secrets"], step["variables"]) == (["TOKEN=hugging-face"], ["BASH_ENV=other.sh"])
    assert (step["links"], step["results_to"]) == (["data/raw"], "elsewhere")
    assert api.requests == []


async def test_it_is_uploaded_and_submitted_once_for_one_key(served: Any, api: Any) -> None:
    put_files(served)
    body = {"path": "work/pipeline.yaml", "team": "vision"}
    headers = {"Idempotency-Key": "click-1"}
    made = await served.http.post("gpucommons/pipeline", json=body, headers=headers)
    assert (made.status_code, made.json()["name"]) == (200, "nightly-1"), made.text
    upload, sent = (r for r in api.requests if r.method in ("PUT", "POST"))
    # Its answer may have been lost: what comes again is the same request, which the scheduler has once.
    await served.http.post("gpucommons/pipeline", json=body, headers=headers)
    *_, again = api.requests
    assert (again.url, again.content) == (sent.url, sent.content)
    assert again.headers["Idempotency-Key"] == "click-1"
    # With another file it is another one, for which the scheduler refuses that key.
    (served.root / "work" / "clean.py").write_text("print('epoch 2')\n")
    await served.http.post("gpucommons/pipeline", json=body, headers=headers)
    *_, other = api.requests
    assert other.headers["Idempotency-Key"] == "click-1"
    assert other.content != sent.content
    asked = api.body("/v1/pipelines")
    assert sent.headers["Idempotency-Key"] == "click-1"
    assert (asked["name"], asked["team"]) == ("nightly", "vision")
    snapshots = {step["job"]["snapshot"] for step in asked["steps"]}
    assert snapshots == {upload.url.path.removeprefix("/v1/snapshots/")}


@pytest.mark.parametrize("changed", ["pipeline.yaml", "clean.py"])
async def test_nothing_runs_that_was_not_shown(served: Any, api: Any, changed: str) -> None:
    put_files(served)
    path = {"path": "work/pipeline.yaml"}
    seen = (await served.http.get("gpucommons/pipeline", params=path)).json()["seen"]
    body = {**path, "team": "vision", "seen": seen}
    file = served.root / "work" / changed
    before = file.read_text()
    file.write_text(before.replace("name: nightly", "name: other").replace("1", "3"))
    made = await served.http.post("gpucommons/pipeline", json=body)
    assert made.status_code == 409
    assert "has changed since its steps were shown. Look again." in made.json()["message"]
    assert api.requests == []
    file.write_text(before)
    again = (await served.http.get("gpucommons/pipeline", params=path)).json()["seen"]
    made = await served.http.post("gpucommons/pipeline", json={**body, "seen": again})
    assert made.status_code == 200, made.text


async def test_what_is_another_file_only_while_it_is_packed_does_not_run(
    served: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that changes its name and back leaves the times of its files as they were."""
    put_files(served)
    work, aside = served.root / "work", served.root / "aside"
    for folder in (work / "model", aside):
        folder.mkdir()
        (folder / "layers.py").write_text("print('epoch 1')\n")
    path = {"path": "work/pipeline.yaml"}
    seen = (await served.http.get("gpucommons/pipeline", params=path)).json()["seen"]

    def packs_another(root: Path, **options: Any) -> Packed:
        (work / "model").rename(served.root / "shown")
        aside.rename(work / "model")
        try:
            return pack(root, **options)
        finally:
            (work / "model").rename(aside)
            (served.root / "shown").rename(work / "model")

    monkeypatch.setattr(pipelines, "pack", packs_another)
    made = await served.http.post("gpucommons/pipeline", json={**path, "seen": seen})
    assert (made.status_code, api.requests) == (409, [])
    monkeypatch.setattr(pipelines, "pack", pack)
    made = await served.http.post(
        "gpucommons/pipeline", json={**path, "seen": seen, "team": "vision"}
    )
    assert made.status_code == 200, made.text


async def test_to_look_at_a_file_reads_none_of_its_folder(
    served: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_files(served)

    def reads(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(snapshot._Entry, "read", reads)
    path = {"path": "work/pipeline.yaml"}
    seen = await served.http.get("gpucommons/pipeline", params=path)
    assert seen.status_code == 200, seen.text
    assert [one["files"] for one in seen.json()["folders"]] == [4]


async def test_a_step_may_take_the_place_of_a_file_only_where_it_is_shown(
    served: Any, api: Any
) -> None:
    each, inputs = "{LD_PRELOAD: [./x.so]}", "{train.py: a/out}"
    put_files(
        served,
        f"steps: {{a: {{run: clean.py}}, b: {{run: train.py, each: {each}, inputs: {inputs}}}}}",
    )
    seen = await served.http.get("gpucommons/pipeline", params={"path": "work/pipeline.yaml"})
    assert seen.status_code == 200, seen.text
    step = seen.json()["steps"][1]
    assert (step["variables"], step["inputs"]) == (["LD_PRELOAD=./x.so"], ["a/out as train.py"])


async def test_fields_without_a_place_of_their_own_are_shown_too(served: Any, api: Any) -> None:
    put_files(
        served,
        f"""
steps:
  a: {{run: clean.py, roles: [{{milli_gpu: 500, gpu_kind: H100}}], pools: [a, b], max_price: 2}}
  b: {{roles: [{{command: ["true"]}}], snapshot: {"a" * 64}, team: nlp, user: bob, folder: none}}
""",
    )
    seen = await served.http.get("gpucommons/pipeline", params={"path": "work/pipeline.yaml"})
    assert seen.status_code == 200, seen.text
    assert [step["others"] for step in seen.json()["steps"]] == [
        ["pools=a, b", "max_price=2.0", "roles.0.gpu_kind=H100"],
        ["user=bob", "team=nlp", f"snapshot={'a' * 64}"],
    ]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("steps: {a: {run: clean.py, after: a}}", "these wait for each other: a → a"),
        (
            "steps:\n  a:\n    run: clean.py\n    gpus: 1",
            "step a: line 4, gpus: there is no such field; there are ",
        ),
        (
            "steps: {a: {run: clean.py, aftr: b}}",
            "aftr: there is no such field; did you mean after",
        ),
        ("steps: {a: {run: no.py}}", "There is no file work/no.py"),
        ("steps: {a: [}", "work/pipeline.yaml is not YAML: line 1"),
        ("#" + " " * (4 << 20), "larger than 256 KiB"),
        ("steps: {a: {run: ../../other.py}}", "which is outside of"),
        ("steps: {a: {module: other, folder: ../..}}", "which is outside of"),
        ("steps: {a: {module: keys, folder: ../.ssh}}", "which is hidden"),
        ("steps: {a: {folder: ../.ssh/keys, roles: [{command: [ls]}]}}", "which is hidden"),
        ("steps: {a: {module: keys, folder: link}}", "which is hidden"),
        ('steps: {a: {run: "cl\\0ean.py"}}', "run: there is no such place (embedded null byte)"),
        ('steps: {a: {module: a, folder: "a\\0b"}}', "folder: there is no such place"),
        (f"steps: {{a: {{module: a, folder: {LONG}}}}}", "no such place (File name too long)"),
        (f"steps: {{a: {{run: {LONG}.py}}}}", "no such place (File name too long)"),
        (f"steps: {{a: {{module: {LONG}}}}}", "cannot be looked for in"),
        ("steps: {a: {run: loop.py}}", "loop.py"),
        ("steps: {a: {run: clean.py, each: {S: []}}}", "S has no values"),
        ('steps: {a: {run: "\\ud800.py"}}', "line 1, column 18: this is no such"),
    ],
)
async def test_what_is_no_pipeline_is_refused_with_the_sentence_of_the_command_line(
    served: Any, api: Any, steps: str, says: str
) -> None:
    put_files(served, steps)
    (served.root / "work" / "loop.py").symlink_to("loop.py")
    (served.root.parent / "other.py").write_text("print(1)\n")
    (served.root / ".ssh" / "keys").mkdir(parents=True)
    (served.root / "work" / "link").symlink_to("../.ssh")
    path = {"path": "work/pipeline.yaml"}
    seen = await served.http.get("gpucommons/pipeline", params=path)
    made = await served.http.post("gpucommons/pipeline", json=path)
    assert (seen.status_code, made.status_code) == (422, 422)
    assert says in seen.json()["message"]
    assert seen.json() == made.json()
    assert api.requests == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../pipeline.yaml", 422),
        ("/etc/passwd", 404),
        ("work", 422),
        ("work/clean.py", 422),
        ("", 422),
    ],
)
async def test_no_path_leads_out_of_the_servers_folder(
    served: Any, api: Any, path: str, status: int
) -> None:
    put_files(served)
    (served.root.parent / "pipeline.yaml").write_text(FILE)
    seen = await served.http.get("gpucommons/pipeline", params={"path": path})
    made = await served.http.post("gpucommons/pipeline", json={"path": path})
    assert (seen.status_code, made.status_code) == (status, status), made.text
    assert api.requests == []


async def test_the_servers_authorizer_may_refuse_to_show_and_to_run(serve: Any, api: Any) -> None:
    class Refuses(Authorizer):
        def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
            return resource != "gpucommons"

    async with serve({"authorizer_class": Refuses}, GPUCOMMONS_URL="http://scheduler") as served:
        put_files(served)
        path = {"path": "work/pipeline.yaml"}
        for answer in (
            await served.http.get("gpucommons/pipeline", params=path),
            await served.http.post("gpucommons/pipeline", json=path),
        ):
            assert answer.status_code == 403
        assert api.requests == []

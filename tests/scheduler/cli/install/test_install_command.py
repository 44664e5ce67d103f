"""An admin's values file: shown, written and undone, and nothing of the admin's is lost on the way."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.cli.install import changes
from gpucommons.scheduler.errors import BadRequest

OURS = changes.Choice(hub_image="r.example:5000/hub:1", notebook_image="r.example/notebook:1")
OPTIONS = ("--hub-image", "r.example:5000/hub:1", "--notebook-image", "r.example/notebook:1")
VALUES = """\
# Our hub, do not touch
hub:
  extraVolumes:
    # certificates
    - name: ca
      configMap: {name: ca}
cull:
  enabled: true  # after an hour
  timeout: 3600
singleuser:
  image:
    name: "scipy-notebook"
    tag: '2026-10-01'
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "z2jh.yaml"
    path.write_text(VALUES)
    path.chmod(0o640)
    return path


def run(file: Path, *options: str) -> int:
    return main(["install", "--values", str(file), *options])


def test_what_would_change_is_shown_and_nothing_is_written(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, *OPTIONS) == 0
    shown = capsys.readouterr().out
    assert "+  enabled: false" in shown
    assert "cull.enabled: our culler knows what a GPU does" in shown
    assert "Nothing is written: do it with --apply." in shown
    assert "helm upgrade HUB" in shown
    assert file.read_text() == VALUES


def test_what_is_written_holds_both_and_is_undone_to_the_letter(file: Path) -> None:
    assert run(file, *OPTIONS, "--apply") == 0
    written = yaml.safe_load(file.read_text())
    assert [one["name"] for one in written["hub"]["extraVolumes"]] == ["ca", "gpucommons-tokens"]
    assert written["hub"]["image"] == {"name": "r.example:5000/hub", "tag": "1"}
    assert "configure_cluster(" in written["hub"]["extraConfig"]["50-gpucommons"]
    assert written["cull"] == {"enabled": False, "timeout": 3600}
    assert "# Our hub, do not touch" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640

    assert run(file, "--undo") == 0
    assert file.read_text() == VALUES


def test_a_link_that_was_put_beside_the_file_is_not_followed(file: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    (tmp_path / f".{file.name}.gpucommons").symlink_to(theirs)

    assert run(file, *OPTIONS, "--apply") == 0

    assert theirs.read_text() == "theirs"
    assert not file.is_symlink()


@pytest.mark.parametrize("rights", [0o600, 0o640, 0o664])
def test_what_is_written_is_private_until_it_has_the_rights_of_the_file(
    file: Path, rights: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    opened = os.open

    def noted(path: Any, flags: int, mode: int = 0o777, **other: Any) -> int:
        if flags & os.O_CREAT:
            made.append(mode)
        return opened(path, flags, mode, **other)

    file.chmod(rights)
    monkeypatch.setattr(os, "open", noted)
    assert run(file, *OPTIONS, "--apply") == 0

    assert made == [0o600]
    assert file.stat().st_mode & 0o777 == rights


def test_a_file_that_cannot_be_written_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refused)
    assert run(file, *OPTIONS, "--apply") == 2
    assert f"{file} cannot be written: Permission denied." in capsys.readouterr().err
    assert file.read_text() == VALUES
    assert list(file.parent.iterdir()) == [file]


def test_what_was_changed_meanwhile_stays(file: Path) -> None:
    run(file, *OPTIONS, "--apply")
    file.write_text(file.read_text().replace("timeout: 3600", "timeout: 60"))
    run(file, "--undo")
    assert file.read_text() == VALUES.replace("timeout: 3600", "timeout: 60")


def test_it_may_be_said_again_with_another_image(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(file, *OPTIONS, "--apply")
    first = file.read_text()
    run(file, *OPTIONS, "--apply")
    assert "The file has everything already." in capsys.readouterr().out
    assert file.read_text() == first
    run(file, "--hub-image", "r.example:5000/hub:2", *OPTIONS[2:], "--apply")
    assert yaml.safe_load(file.read_text())["hub"]["image"]["tag"] == "2"
    run(file, "--undo")
    assert file.read_text() == VALUES


def test_with_another_namespace_nothing_of_the_first_is_left(file: Path) -> None:
    run(file, *OPTIONS, "--namespace", "a", "--apply")
    run(file, *OPTIONS, "--namespace", "b", "--apply")
    written = yaml.safe_load(file.read_text())
    assert [selected(rule) for rule in written["singleuser"]["networkPolicy"]["egress"]] == ["b"]
    run(file, "--undo")
    assert file.read_text() == VALUES


def selected(rule: dict[str, Any]) -> str:
    (to,) = rule["to"]
    found: str = to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    return found


def test_an_entry_that_the_admin_had_stays_after_undo(file: Path) -> None:
    toleration = "{key: gpucommons.io/pool, operator: Exists, effect: NoSchedule}"
    values = f"{VALUES}prePuller:\n  extraTolerations:\n    - {toleration}\n"
    file.write_text(values)
    run(file, *OPTIONS, "--apply")
    run(file, "--undo")
    assert file.read_text() == values


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ("rbac: {create: false}", "the hub could make no pods"),
        ("hub: {config: {JupyterHub: {spawner_class: docker}}}", "spawner_class is docker"),
        ("singleuser: {uid: 0}", "slices are mounted for user 1000"),
        ("hub: {services: {gpucommons: {url: http://x}}}", "hub.services.gpucommons is set"),
        ("hub: {extraVolumes: {name: x}}", "hub.extraVolumes must be a list"),
        ("hub: [1]", "hub must be a mapping"),
        ("- 1", "must be a mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_what_contradicts_is_refused_with_what_to_do(
    file: Path, capsys: pytest.CaptureFixture[str], values: str, says: str
) -> None:
    file.write_text(values)
    assert run(file, *OPTIONS, "--apply") == 2
    assert says in capsys.readouterr().err
    assert file.read_text() == values


def test_an_image_without_a_tag_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file) == 2
    assert "Name the hub's image" in capsys.readouterr().err
    assert run(file, "--hub-image", "r.example:5000/hub") == 2
    assert "write NAME:TAG" in capsys.readouterr().err


def test_what_no_longer_works_is_said() -> None:
    values = {
        "singleuser": {
            "profileList": [{"kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": 1}}}],
            "networkPolicy": {"enabled": False},
        },
        "scheduling": {"userPods": {"nodeAffinity": {"matchNodePurpose": "require"}}},
    }  # fmt: skip
    said = " ".join(changes.remarks(values, changes.Choice(hub_image="hub:1")))
    for word in (
        "--notebook-image",
        "Profiles that ask for",
        "node-purpose=user",
        "networkPolicy.users",
        "notebooks ask for no processor",
    ):
        assert word in said
    values["singleuser"]["cpu"] = {"guarantee": 0.5}
    said = " ".join(changes.remarks(values, changes.Choice(hub_image="hub:1")))
    assert "processor" not in said


def test_a_file_without_ours_has_nothing_to_undo(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--undo") == 0
    assert "Nothing of GPU Commons is in this file." in capsys.readouterr().out
    assert file.read_text() == VALUES


_LEAVES = st.sampled_from([True, False, "accept", "ignore", 1000, "x"])
_ITEMS = st.fixed_dictionaries({"name": st.sampled_from(["a", "b"])})


def lists(change: changes.Item) -> st.SearchStrategy[list[Any]]:
    """With entries of the admin's own that are the same as ours."""
    return st.lists(_ITEMS | st.just(change.item), min_size=1, max_size=3)


@st.composite
def hubs(draw: st.DrawFn) -> dict[str, Any]:
    """Values that have some of the places where ours go."""
    found: dict[str, Any] = {}
    for change in changes.changes(OURS):
        if not draw(st.booleans()):
            continue
        *parents, name = change.path
        place = found
        for one in parents:
            place = place.setdefault(one, {})
        place[name] = draw(_LEAVES if isinstance(change, changes.Value) else lists(change))
    return found


@given(hubs())
def test_whatever_stood_there_is_back_after_undo(values: dict[str, Any]) -> None:
    before = copy.deepcopy(values)
    changes.apply(values, replace(OURS, namespace="earlier"))
    changes.apply(values, OURS)
    assert changes.apply(values, OURS) == []
    assert changes.undo(values)
    assert values == before
    assert not changes.undo(values)


def test_only_lists_and_mappings_are_walked() -> None:
    with pytest.raises(BadRequest, match=r"hub\.image must be a mapping"):
        changes.apply({"hub": {"image": "hub:1"}}, OURS)

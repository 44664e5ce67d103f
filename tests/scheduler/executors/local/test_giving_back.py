"""What a job wrote comes back to ``results/JOB/`` of its owner, and nothing there is hurt."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from launches import a_launch, ended, python

from gpucommons.scheduler.executors.local.attempt.attempt_folder import read_json
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.files.confined_files import MAX_DEPTH, Refused
from gpucommons.scheduler.working_folder import giving_back, sending
from gpucommons.scheduler.working_folder.changes import baseline, changes
from gpucommons.scheduler.working_folder.giving_back import MARK, Outcome, Wanted, give_back

MIB = 1 << 20


def run_and_look(executor: LocalExecutor, code: str, **spec: object) -> Outcome:
    launch = a_launch(*python(code), **spec)
    executor.start(launch)
    assert ended(executor).exit_code == 0
    document = read_json(executor.folder(launch.attempt.attempt_id).given_back)
    assert document is not None
    return Outcome.from_json(document)


def names(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() and path.name != MARK
    )


def a_snapshot(folder: Path, **files: str) -> None:
    with tarfile.open(folder / "abc.tar", "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def test_new_and_changed_files_come_back_beside_the_script(
    executor: LocalExecutor, home: Path, tmp_path: Path
) -> None:
    a_snapshot(tmp_path, same="as submitted", other="as submitted")
    code = (
        "import os; os.makedirs('out/deep'); open('out/deep/model.pt', 'w').write('12345');"
        "open('other', 'w').write('changed'); os.makedirs('__pycache__');"
        "open('__pycache__/x.pyc', 'w').write('x'); os.symlink('/etc/passwd', 'link');"
        "d = os.environ['GPUCOMMONS_ATTEMPT_DIR'] + '/results'; os.makedirs(d);"
        "open(d + '/best.json', 'w').write('{}'); os.mkfifo('pipe')"
    )
    found = run_and_look(executor, code, snapshot="abc", results_to="runs/today")

    came = home / "runs" / "today" / "results" / "digits-1"
    assert names(came) == ["best.json", "other", "out/deep/model.pt"]
    assert (found.folder, found.count) == ("runs/today/results/digits-1", 3)
    assert [(file.path, file.size_bytes) for file in found.files] == [
        ("best.json", 2),
        ("other", 7),
        ("out/deep/model.pt", 5),
    ]
    assert [(one.path, one.reason) for one in found.left_out] == [
        ("link", "is a link"),
        ("pipe", "is not a regular file"),
    ]


def test_of_two_files_of_one_name_the_one_in_results_comes_and_the_other_is_named(
    executor: LocalExecutor, home: Path
) -> None:
    code = (
        "import os; open('model.pt', 'w').write('small');"
        "d = os.environ['GPUCOMMONS_ATTEMPT_DIR'] + '/results'; os.makedirs(d);"
        "open(d + '/model.pt', 'w').write('the larger one')"
    )
    found = run_and_look(executor, code, results_to=None)

    came = home / "results" / "digits-1"
    assert names(came) == ["model.pt"]
    assert (came / "model.pt").read_text() == "the larger one"
    assert [(one.path, one.reason) for one in found.left_out] == [
        ("model.pt", "has the name of a file in results/, which was taken")
    ]


def test_without_a_folder_they_come_to_the_home(executor: LocalExecutor, home: Path) -> None:
    found = run_and_look(executor, "open('x', 'w').write('42')", results_to=None)

    assert found.folder == "results/digits-1"
    assert (home / "results" / "digits-1" / "x").read_text() == "42"


def test_a_job_that_wrote_nothing_makes_no_folder(executor: LocalExecutor, home: Path) -> None:
    assert run_and_look(executor, "pass") == Outcome()
    assert list(home.iterdir()) == []


# --- what lies there already, and what stands in the way --------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "model").write_text("new")
    return folder


def wanted(home: Path, job_id: str = "one", **changed: object) -> Wanted:
    fields: dict[str, object] = {"below": "", "max_bytes": MIB, "job": "digits-1", "home": home}
    return Wanted(job_id=job_id, **{**fields, **changed})  # type: ignore[arg-type] # as given


def test_two_jobs_of_one_name_come_to_two_folders(run: Path, home: Path) -> None:
    (home / "results" / "digits-1").mkdir(parents=True)
    (home / "results" / "digits-1" / "model").write_text("the user's own")

    first, second = give_back(run, {}, wanted(home)), give_back(run, {}, wanted(home, "two"))

    assert (first.folder, second.folder) == ("results/digits-1.2", "results/digits-1.3")
    assert (home / "results" / "digits-1" / "model").read_text() == "the user's own"


def test_an_empty_folder_of_that_name_stays_empty(run: Path, home: Path) -> None:
    (home / "results" / "digits-1").mkdir(parents=True)

    assert give_back(run, {}, wanted(home)).folder == "results/digits-1.2"
    assert list((home / "results" / "digits-1").iterdir()) == []


def test_a_copy_that_was_killed_is_repeated_and_leaves_nothing_behind(
    run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(giving_back, "_named", killed)
        dying.setattr(giving_back, "_drop", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            give_back(run, {}, wanted(home))
    assert not (home / "results" / "digits-1").exists()

    assert give_back(run, {}, wanted(home)).folder == "results/digits-1"
    assert give_back(run, {}, wanted(home)).folder == "results/digits-1"
    assert [path.name for path in (home / "results").iterdir()] == ["digits-1"]


def test_results_do_not_follow_a_link_out_of_the_home(
    run: Path, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (home / "results").symlink_to(tmp_path / "outside")

    found = give_back(run, {}, wanted(home))

    assert found.folder is None
    assert found.problem == "results cannot be written: Not a directory"
    assert list((tmp_path / "outside").iterdir()) == []


def test_results_that_were_replaced_by_a_link_bring_nothing_and_are_named(
    run: Path, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("k")
    (run / "results").symlink_to(tmp_path / "secret")

    found = give_back(run, {}, wanted(home))

    assert [file.path for file in found.files] == ["model"]
    assert [(one.path, one.reason) for one in found.left_out] == [
        ("results", "is a link or a file, no folder")
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(run: Path, home: Path) -> None:
    home.chmod(0o500)
    found = give_back(run, {}, wanted(home))
    home.chmod(0o700)

    assert found.problem == "results cannot be written: Permission denied"


def test_a_home_that_is_missing_is_said(run: Path, home: Path) -> None:
    home.rmdir()

    assert "No such file or directory" in give_back(run, {}, wanted(home)).problem


def test_a_disk_without_room_is_said_before_anything_is_written(
    run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, MIB))  # type: ignore[attr-defined] # as it answers
    found = give_back(run, {}, wanted(home))

    assert "1 MiB are free" in found.problem
    assert list(home.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_half(
    run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(giving_back, "add_file", full)
        found = give_back(run, {}, wanted(home))

    assert found.problem == "results cannot be written: No space left on device"
    assert list((home / "results").iterdir()) == []


def test_beyond_the_limit_the_smallest_come_and_the_others_are_named(run: Path, home: Path) -> None:
    with (run / "work" / "huge").open("wb") as file:
        file.truncate(50 << 30)

    found = give_back(run, {}, wanted(home))

    assert [file.path for file in found.files] == ["model"]
    assert [(one.path, one.reason) for one in found.left_out] == [
        (
            "huge",
            "(50.0 GiB) is beyond the 1.0 MiB that are copied for a job; it is still with the job:"
            " gpucommons results digits-1 --file huge --to FOLDER",
        )
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"big\xff", "its name cannot be typed in a command"),
        (b"big\x1b[2J\nx", "its name cannot be typed in a command"),
        (b"-big", "--file=-big --to FOLDER"),
        (b"a b", "--file 'a b' --to FOLDER"),
    ],
)
def test_a_command_is_said_only_for_a_name_that_can_be_typed(
    run: Path, home: Path, name: bytes, said: str
) -> None:
    with open(os.fsencode(run / "work") + b"/" + name, "wb") as file:  # noqa: PTH123 - bytes
        file.truncate(50 << 30)

    (left_out,) = give_back(run, {}, wanted(home)).left_out

    assert left_out.reason.endswith(said)
    assert left_out.reason.isprintable()


def test_of_very_many_files_some_come_and_the_others_are_said(run: Path, home: Path) -> None:
    for number in range(20):
        (run / "work" / f"f{number}").touch()

    found = give_back(run, {}, wanted(home, max_files=10))

    assert found.count == 10
    assert found.left_out[-1].reason == "not looked at: there are more than 10 files"


def test_a_look_ends_after_its_time_but_not_before_the_first_file(run: Path) -> None:
    (run / "work" / "zeta").touch()
    ticks = iter(range(100))
    found = changes(run / "work", {}, max_s=0.5, now_s=lambda: float(next(ticks)))

    assert ([file.path for file in found.files], found.more) == (["model"], True)


def test_a_file_of_the_same_size_and_other_content_has_changed(run: Path, tmp_path: Path) -> None:
    a_snapshot(tmp_path, model="old", same="new")
    (run / "work" / "same").write_text("new")
    with (tmp_path / "abc.tar").open("rb") as snapshot:
        since = baseline(snapshot)

    assert [file.path for file in changes(run / "work", since).files] == ["model"]


def test_a_folder_says_whose_results_it_holds(run: Path, home: Path) -> None:
    give_back(run, {}, wanted(home))

    mark = json.loads((home / "results" / "digits-1" / MARK).read_text())
    assert mark == {"job": "digits-1", "job_id": "one"}


def test_one_file_is_sent_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MAX_MEMBERS", 1)
    work, deep, deeper = (
        tmp_path / "work",
        "/".join("d" * MAX_DEPTH),
        "/".join("d" * MAX_DEPTH + "e"),
    )
    paths = ["a", "changed", "same", f"{deep}/f", f"{deeper}/f", "__pycache__/x", "out/model.pt"]
    for path in paths:
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(path)
    (work / "link").symlink_to("a")
    (work / "linked").symlink_to("out")
    os.mkfifo(work / "pipe")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a").write_text("the best")
    as_submitted = hashlib.sha256(b"same").hexdigest()
    since = {"same": (4, as_submitted), "changed": (7, as_submitted)}

    def sent(path: str) -> str | None:
        to = io.BytesIO()
        try:
            sending.send(tmp_path, since, to, max_bytes=0, only=path)
        except Refused:
            return None
        to.seek(0)
        with tarfile.open(fileobj=to) as archive:
            [member] = archive
            file = archive.extractfile(member)
            assert member.name == path
            return None if file is None else file.read().decode()

    assert sent("a") == "the best"
    others = [
        "link",
        "linked/model.pt",
        "pipe",
        "out",
        "out/",
        "./a",
        "../work/a",
        "no/such",
        "a/b",
    ]
    all_paths = [*paths[1:], *others, "x" * 300]
    found = {path for path in all_paths if sent(path) is not None}
    assert found == {file.path for file in changes(work, since).files} - {"a"}
    assert found == {"changed", f"{deep}/f", "out/model.pt"}

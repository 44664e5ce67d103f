"""Results come to a folder of the user's own, which a hostile job or a stray link must not leave."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.client.results import fetch_one_result, fetch_results
from gpucommons.scheduler.errors import BadRequest, Conflict, Unavailable
from gpucommons.scheduler.models import JobView

JOB = JobView.model_construct(id="digits-1", name="digits-1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "work").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return folder


def a_tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def a_file(name: str, content: bytes = b"x", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    for field, value in changes.items():
        setattr(member, field, value)
    return member, content


def fetch(content: bytes | httpx.Response, home: Path, below: str = "work", **options: int) -> int:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/jobs/digits-1/results"
        return (
            content if isinstance(content, httpx.Response) else httpx.Response(200, content=content)
        )

    client = SchedulerClient("http://scheduler", transport=httpx.MockTransport(answer))
    with client:
        return fetch_results(client, JOB, home, below, **options)


def fetch_one(content: bytes, to: Path, file: str) -> str:
    def answer(request: httpx.Request) -> httpx.Response:
        assert dict(request.url.params) == {"file": file}
        return httpx.Response(200, content=content)

    client = SchedulerClient("http://scheduler", transport=httpx.MockTransport(answer))
    with client:
        return fetch_one_result(client, JOB, file, to)


def test_one_file_is_named_as_it_lies_there(home: Path) -> None:
    to = home / "work"
    (to / "model.pt").write_bytes(b"the user's own")
    content = a_tar(a_file("model.pt", b"new"))
    for _ in range(2):
        assert fetch_one(content, to, "model.pt") == "model.digits-1.pt"
    assert (to / "model.digits-1.pt").read_bytes() == b"new"
    (to / "model.pt").write_bytes(b"new")
    assert fetch_one(content, to, "model.pt") == "model.pt"
    assert fetch_one(a_tar(a_file("a/b.pt")), to, "a/b.pt") == "a/b.pt"


def test_of_one_file_nothing_that_came_is_an_error(home: Path) -> None:
    with pytest.raises(Conflict, match="did not come"):
        fetch_one(a_tar(), home / "work", "model.pt")


def test_another_file_than_was_asked_for_is_not_taken(home: Path) -> None:
    with pytest.raises(BadRequest, match=r"'\.bashrc' came, where 'model\.pt' was asked for"):
        fetch_one(a_tar(a_file(".bashrc", b"evil")), home / "work", "model.pt")
    assert list((home / "work").iterdir()) == []


def test_one_file_of_a_hidden_folder_comes_anywhere_but_to_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    (home.parent / "link").symlink_to(home)
    content = a_tar(a_file(".hydra/big.pt"))
    assert fetch_one(content, home / "work", ".hydra/big.pt") == ".hydra/big.pt"
    for to in (home, home / "work" / "..", home.parent / "link"):
        with pytest.raises(BadRequest, match="hidden folder of your home"):
            fetch_one(content, to, ".hydra/big.pt")
    assert not (home / ".hydra").exists()


def test_a_file_whose_name_is_no_text_cannot_be_asked_for(home: Path) -> None:
    with pytest.raises(BadRequest, match=r"'m\\udcff' is not UTF-8.*results digits-1 --to FOLDER"):
        fetch_one(a_tar(), home / "work", "m\udcff")


def test_files_come_to_their_places_and_replace_nothing(home: Path) -> None:
    (home / "work" / "model.pt").write_bytes(b"the user's own")
    content = a_tar(a_file("model.pt", b"new"), a_file("plots/a/loss.png", b"png"))
    for _ in range(2):
        assert fetch(content, home) == 2
    files = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert files == {"work/model.pt", "work/model.digits-1.pt", "work/plots/a/loss.png"}
    assert (home / "work" / "model.pt").read_bytes() == b"the user's own"
    assert (home / "work" / "model.digits-1.pt").read_bytes() == b"new"
    assert (home / "work" / "plots" / "a" / "loss.png").read_bytes() == b"png"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../../evil", "../outside/evil"])
def test_names_that_lead_out_are_refused(home: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="not taken"):
        fetch(a_tar(a_file(name)), home)
    assert not list(home.parent.rglob("evil"))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_what_is_no_file_is_refused(home: Path, kind: bytes) -> None:
    with pytest.raises(BadRequest, match="no regular file"):
        fetch(a_tar(a_file("evil", b"", type=kind, linkname="/etc/passwd")), home)
    assert not list(home.rglob("evil"))


def test_a_link_in_the_folder_is_not_written_through(home: Path) -> None:
    outside = home.parent / "outside"
    (outside / "target").write_text("kept")
    (home / "work" / "model").symlink_to(outside / "target")
    fetch(a_tar(a_file("model", b"new")), home)
    assert (home / "work" / "model.digits-1").read_bytes() == b"new"
    (home / "work" / "model.digits-1").unlink()
    (home / "work" / "model.digits-1").symlink_to(outside / "target")
    with pytest.raises(BadRequest, match="cannot be written"):
        fetch(a_tar(a_file("model", b"evil")), home)
    (home / "work" / "plots").symlink_to(outside)
    with pytest.raises(BadRequest, match="cannot be written"):
        fetch(a_tar(a_file("plots/evil", b"evil")), home)
    assert (outside / "target").read_text() == "kept"
    assert not (outside / "evil").exists()


def test_a_results_folder_that_is_a_link_is_not_entered(home: Path) -> None:
    (home / "work").rmdir()
    (home / "work").symlink_to(home.parent / "outside")
    with pytest.raises(BadRequest, match="cannot be written"):
        fetch(a_tar(a_file("evil")), home)
    assert list((home.parent / "outside").iterdir()) == []


@pytest.mark.parametrize("below", [".", "./", ".ipython"])
def test_what_the_homes_programs_obey_is_not_written(home: Path, below: str) -> None:
    name = "startup.py" if below == ".ipython" else ".ipython/startup.py"
    with pytest.raises(BadRequest, match="hidden folder of your home"):
        fetch(a_tar(a_file(name)), home, below)
    assert not list(home.rglob("startup.py"))


@pytest.mark.parametrize(
    "name", ["backend/.venv/lib/zz.pth", "backend/.git/hooks/post-checkout", "./backend/.envrc"]
)
def test_what_programs_obey_in_a_folder_of_a_project_is_not_written(home: Path, name: str) -> None:
    (home / "work" / "backend" / ".git").mkdir(parents=True)
    with pytest.raises(BadRequest, match="hidden in a folder that is there already"):
        fetch(a_tar(a_file("backend/a.pt"), a_file(name)), home / "work", ".")
    assert not (home / "work" / name).exists()


def test_what_is_hidden_in_a_new_folder_of_a_project_is_results(home: Path) -> None:
    files = [a_file("outputs/1/.hydra/config.yaml"), a_file("outputs/1/.hydra/hydra.yaml")]
    assert fetch(a_tar(*files, a_file("step-10/.metadata")), home / "work", ".") == 3


def test_a_hidden_file_that_was_asked_for_by_its_name_comes(home: Path) -> None:
    (home / "work" / "backend").mkdir()
    name = "backend/.hydra/big.pt"
    assert fetch_one(a_tar(a_file(name)), home / "work", name) == name


def test_hidden_folders_below_the_jobs_own_are_results(home: Path) -> None:
    assert fetch(a_tar(a_file(".hydra/config.yaml")), home) == 1


def test_a_pipe_of_the_same_name_neither_blocks_nor_is_fed(home: Path) -> None:
    for name in ("model", "model.digits-1"):
        os.mkfifo(home / "work" / name)
    with pytest.raises(BadRequest):
        fetch(a_tar(a_file("model", b"evil")), home)


def test_more_than_the_limit_is_cut_off(home: Path) -> None:
    with pytest.raises(BadRequest, match="larger"):
        fetch(a_tar(a_file("a", b"1" * 600), a_file("b", b"1" * 600)), home, max_bytes=1000)


def test_a_file_without_end_is_cut_off_at_the_limit(home: Path) -> None:
    member = tarfile.TarInfo("zeros")
    member.size = 1 << 50

    def endless() -> Iterator[bytes]:
        yield member.tobuf()
        while True:
            yield bytes(1 << 20)

    with pytest.raises(BadRequest, match="larger"):
        fetch(httpx.Response(200, content=endless()), home, max_bytes=4 << 20)
    assert list((home / "work").iterdir()) == []


def test_an_answer_that_breaks_off_is_said_and_leaves_no_half_of_a_file(home: Path) -> None:
    content = a_tar(a_file("a.pt", b"1" * 50_000))

    def broken() -> Iterator[bytes]:
        yield content[:30_000]
        raise httpx.ReadError("")

    with pytest.raises(Unavailable, match="whole"):
        fetch(content[:30_000], home)
    with pytest.raises(Unavailable, match="cannot be reached"):
        fetch(httpx.Response(200, content=broken()), home)
    assert list((home / "work").iterdir()) == []
    assert fetch(content, home) == 1
    assert [path.name for path in (home / "work").iterdir()] == ["a.pt"]


def test_who_is_killed_while_fetching_leaves_no_half_of_a_file_under_its_name(home: Path) -> None:
    content = a_tar(a_file("a.pt", b"1" * 50_000))
    named = []

    def slow() -> Iterator[bytes]:
        yield content[:30_000]
        named.append((home / "work" / "a.pt").exists())
        yield content[30_000:]

    assert fetch(httpx.Response(200, content=slow()), home) == 1
    assert named == [False]


def test_a_refusal_is_the_schedulers_own(home: Path) -> None:
    refusal = httpx.Response(409, json={"error": "Conflict", "message": "digits-1 is running"})
    with pytest.raises(Conflict, match="is running"):
        fetch(refusal, home)

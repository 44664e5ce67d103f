import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpucommons.scheduler.client import snapshot
from gpucommons.scheduler.client.documents.packed_once import packed_once
from gpucommons.scheduler.errors import BadRequest, TooLarge


def _names(packed: snapshot.Packed) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        return archive.getnames()


def _project(root: Path) -> Path:
    (root / "src").mkdir(parents=True)
    (root / "train.py").write_text("print(1)\n")
    (root / "src" / "model.py").write_text("x = 1\n")
    return root


def test_same_files_give_same_bytes_whenever_and_wherever_they_were_made(tmp_path: Path) -> None:
    one, two = _project(tmp_path / "one"), _project(tmp_path / "two")
    os.utime(two / "train.py", (1, 1))
    assert snapshot.pack(one).content == snapshot.pack(two).content
    assert snapshot.pack(one).sha256 == snapshot.pack(two).sha256


def test_a_changed_file_changes_the_hash(tmp_path: Path) -> None:
    root = _project(tmp_path)
    before = snapshot.pack(root).sha256
    (root / "train.py").write_text("print(2)\n")
    assert snapshot.pack(root).sha256 != before


def test_files_are_sorted_and_keep_their_executable_bit(tmp_path: Path) -> None:
    root = _project(tmp_path)
    (root / "run.sh").write_text("true\n")
    (root / "run.sh").chmod(0o700)
    packed = snapshot.pack(root)
    assert _names(packed) == ["run.sh", "src/model.py", "train.py"]
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        modes = {member.name: member.mode for member in archive}
    assert modes == {"run.sh": 0o755, "src/model.py": 0o644, "train.py": 0o644}


def test_links_fifos_and_what_they_point_to_stay_behind_and_are_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("password")
    root = _project(tmp_path / "project")
    (root / "link.txt").symlink_to(secret)
    (root / "outside").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    packed = snapshot.pack(root)
    assert _names(packed) == ["src/model.py", "train.py"]
    assert b"password" not in packed.content
    assert {entry.path: entry.reason for entry in packed.excluded} == {
        "link.txt": "is a link",
        "outside": "is a link",
        "pipe": "is not a regular file",
    }


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".env", "is hidden"),
        (".git/config", "is hidden"),
        ("__pycache__/a.pyc", "is made anew by programs"),
        ("node_modules/a.js", "is made anew by programs"),
        ("checkpoints/step-1", "is named checkpoints"),
        ("venv/pyvenv.cfg", "is a virtual environment"),
    ],
)
def test_what_is_not_code_stays_behind(tmp_path: Path, path: str, reason: str) -> None:
    root = _project(tmp_path)
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text("x")
    listing = snapshot.preview(root)
    assert [file.path for file in listing.files] == ["train.py", "src/model.py"]
    assert [(entry.path, entry.reason) for entry in listing.excluded] == [
        (path.partition("/")[0], reason)
    ]


def test_what_cannot_be_read_stays_behind_and_is_named() -> None:
    with somebody_else(), tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _project(root)
        (root / "closed").mkdir(mode=0)
        (root / "locked.py").touch(mode=0)
        listing, packed = snapshot.preview(root), snapshot.pack(root)
        (root / "closed").chmod(0o700)
    told = {(one.path, one.reason) for one in packed.excluded}
    assert {("closed", "cannot be read"), ("locked.py", "cannot be read")} <= told
    assert set(listing.files) == set(packed.files)


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_large_file_stays_behind_and_is_named_with_its_size(tmp_path: Path) -> None:
    root = _project(tmp_path)
    with (root / "data.bin").open("wb") as file:
        file.truncate(snapshot.MAX_FILE_BYTES + 1)
    (excluded,) = snapshot.pack(root).excluded
    assert excluded == snapshot.ExcludedFile(
        path="data.bin",
        size_bytes=snapshot.MAX_FILE_BYTES + 1,
        reason="is larger than 32 MiB",
        linkable=True,
    )


def test_too_much_in_all_is_refused_and_the_largest_file_named(tmp_path: Path) -> None:
    root = _project(tmp_path)
    (root / "big.csv").write_bytes(b"x" * 2_000_000)
    with pytest.raises(TooLarge, match=r"big\.csv \(1\.9 MiB\)"):
        snapshot.pack(root, max_bytes=1024 * 1024)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_FILES", 1)
    with pytest.raises(TooLarge, match=r"more than 1 files, most of them in src\. Name what"):
        snapshot.preview(_project(tmp_path))


def test_a_folder_that_is_too_large_says_where_most_lies_and_how_to_go_without(
    tmp_path: Path,
) -> None:
    root = _project(tmp_path)
    (root / "data").mkdir()
    for number in range(3):
        (root / "data" / f"{number}.npz").write_bytes(b"x" * 1_000_000)
    with pytest.raises(TooLarge, match=r"The largest: data \(2\.9 MiB in 3 files\)") as refused:
        snapshot.pack(root, max_bytes=1024 * 1024)
    (root / ".gpucommonsignore").write_text("# measured once\ndata/\n")
    assert str(root / ".gpucommonsignore") in str(refused.value)
    packed = snapshot.pack(root, max_bytes=1024 * 1024)
    assert _names(packed) == ["src/model.py", "train.py"]
    left = [one for one in packed.excluded if one.linkable]
    assert [(one.path, one.reason) for one in left] == [("data", "is named in .gpucommonsignore")]


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("model.py", {"src/model.py"}),
        ("*.py", {"train.py", "src/model.py"}),
        ("src/model.*", {"src/model.py"}),
        ("/train.py", {"train.py"}),
        ("src", {"src"}),
        ("s?c/", {"src"}),
        ("../train.py", set()),
        ("# train.py", set()),
    ],
)
def test_a_line_names_what_stays_behind_by_name_or_by_path(
    tmp_path: Path, line: str, stays: set[str]
) -> None:
    root = _project(tmp_path)
    (root / ".gpucommonsignore").write_text(f"\n{line}\n")
    left = {one.path for one in snapshot.preview(root).excluded if one.linkable}
    assert left == stays


def test_a_file_of_names_that_cannot_be_meant_is_refused_and_none_is_followed(
    tmp_path: Path,
) -> None:
    root = _project(tmp_path)
    (root / ".gpucommonsignore").write_text("!train.py\n")
    with pytest.raises(BadRequest, match="takes nothing back"):
        snapshot.pack(root)
    (root / ".gpucommonsignore").write_text("a\n" * 70_000)
    with pytest.raises(BadRequest, match="name folders, not each file"):
        snapshot.pack(root)
    (root / ".gpucommonsignore").unlink()
    os.mkfifo(root / ".gpucommonsignore")
    assert _names(snapshot.pack(root)) == ["src/model.py", "train.py"]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is not a folder"):
        snapshot.pack(tmp_path / "nowhere")


def test_a_file_replaced_by_a_link_between_listing_and_reading_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("password")
    root = _project(tmp_path / "project")
    read = snapshot._Entry.read

    def swap_then_read(entry: snapshot._Entry, limit: int) -> bytes | None:
        if entry.path == "train.py":
            (root / "train.py").unlink()
            (root / "train.py").symlink_to(tmp_path / "secret")
        return read(entry, limit)

    monkeypatch.setattr(snapshot._Entry, "read", swap_then_read)
    packed = snapshot.pack(root)
    assert _names(packed) == ["src/model.py"]


def test_extra_files_join_and_win(tmp_path: Path) -> None:
    packed = snapshot.pack(_project(tmp_path), extra={"train.py": b"other", "lock.txt": b"a==1\n"})
    assert _names(packed) == ["lock.txt", "src/model.py", "train.py"]
    assert b"other" in packed.content


@pytest.mark.parametrize("packing", [snapshot.pack, snapshot.list_only])
def test_what_is_added_counts_and_what_it_stands_for_does_not(
    tmp_path: Path, packing: snapshot.Packing
) -> None:
    (tmp_path / "lock.txt").write_bytes(b"x" * 3000)
    (tmp_path / "train.py").write_bytes(b"x" * 1000)
    assert len(packing(tmp_path, max_bytes=2000, extra={"lock.txt": b"y" * 1000}).files) == 2
    with pytest.raises(TooLarge, match=r"The files are .* The largest: lock\.txt"):
        packing(tmp_path, max_bytes=2000, extra={"lock.txt": b"y" * 1001})


def test_folders_are_counted_together_before_one_more_is_read(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.bin").write_bytes(name.encode() * 40_000)
    packing = packed_once(most_bytes=100_000)
    first = packing(tmp_path / "a", max_bytes=100_000, extra={})
    assert packing(tmp_path / "a", max_bytes=100_000, extra={}) is first
    packing(tmp_path / "b", max_bytes=100_000, extra={})
    with pytest.raises(
        TooLarge, match=r"c the folders that go along are 0\.1 MiB, together at most"
    ):
        packing(tmp_path / "c", max_bytes=100_000, extra={})


def test_files_that_grow_while_they_are_read_are_read_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        (tmp_path / f"{number}.bin").write_bytes(b"a")
    listing = snapshot.preview(tmp_path)
    for number in range(9):
        (tmp_path / f"{number}.bin").write_bytes(b"a" * 1000)
    monkeypatch.setattr(snapshot, "preview", lambda root: listing)
    read: list[str] = []
    whole = snapshot._Entry.read

    def watched(entry: snapshot._Entry, limit: int) -> bytes | None:
        read.append(entry.path)
        return whole(entry, limit)

    monkeypatch.setattr(snapshot._Entry, "read", watched)
    with pytest.raises(TooLarge, match="grew beyond"):
        snapshot.pack(tmp_path, max_bytes=2500)
    assert read == ["0.bin", "1.bin", "2.bin"]

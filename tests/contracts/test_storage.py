"""What every storage keeps to: a folder, obstore's own stores, and a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.file_storage.base import Changed, Storage
from gpucommons.scheduler.file_storage.bucket import BucketStorage
from gpucommons.scheduler.file_storage.folder import FolderStorage


@pytest.fixture(params=["folder", "memory", "local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    obstore = pytest.importorskip("obstore.store") if request.param != "folder" else None
    if request.param == "folder":
        yield FolderStorage(tmp_path / "storage")
    elif request.param == "memory":
        assert obstore is not None
        yield BucketStorage(obstore.MemoryStore())
    elif request.param == "local":
        assert obstore is not None
        yield BucketStorage(obstore.LocalStore(tmp_path / "storage", mkdir=True))
    else:
        yield request.getfixturevalue("s3_storage")


def a_file(folder: Path, content: bytes) -> Path:
    path = folder / "source"
    path.write_bytes(content)
    return path


def test_a_file_is_there_whole_after_it_was_put(storage: Storage, tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    storage.put("snapshots/a.tar", a_file(tmp_path, content))
    assert b"".join(storage.chunks("snapshots/a.tar")) == content
    found = storage.head("snapshots/a.tar")
    assert found is not None
    assert (found.key, found.size_bytes) == ("snapshots/a.tar", len(content))
    storage.put("snapshots/a.tar", a_file(tmp_path, b"new"))
    assert b"".join(storage.chunks("snapshots/a.tar")) == b"new"


def test_an_empty_file_is_a_file(storage: Storage, tmp_path: Path) -> None:
    storage.put("a/empty", a_file(tmp_path, b""))
    assert b"".join(storage.chunks("a/empty")) == b""
    assert storage.head("a/empty") is not None


def test_what_is_not_there_is_said(storage: Storage) -> None:
    assert storage.head("a/b") is None
    assert storage.read("a/b") is None
    with pytest.raises(NotFound, match="a/b"):
        list(storage.chunks("a/b"))
    assert list(storage.below("a")) == []
    storage.delete(["a/b", "a/c"])


def test_of_two_who_create_one_is_refused(storage: Storage) -> None:
    storage.write("jobs/1/latest", b"first", version=None)
    with pytest.raises(Changed):
        storage.write("jobs/1/latest", b"second", version=None)
    found = storage.read("jobs/1/latest")
    assert found is not None
    assert found[0] == b"first"


def test_of_two_who_replace_the_same_version_one_is_refused(
    storage: Storage, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["storage"] == "local":
        pytest.skip("obstore's LocalStore has no conditional update; the folder is ours instead")
    first = storage.write("jobs/1/latest", b"1", version=None)
    second = storage.write("jobs/1/latest", b"22", version=first)
    with pytest.raises(Changed):
        storage.write("jobs/1/latest", b"333", version=first)
    assert storage.read("jobs/1/latest") == (b"22", second)
    with pytest.raises(Changed):
        storage.write("jobs/2/latest", b"never there", version=first)


def test_a_folder_lists_what_is_below_it_and_nothing_beside_it(
    storage: Storage, tmp_path: Path
) -> None:
    source = a_file(tmp_path, b"x")
    names = ["attempts/1/a", "attempts/1/b c/ü", "attempts/12/d", "attempts/1.txt"]
    for name in names:
        storage.put(name, source)
    assert sorted(one.key for one in storage.below("attempts/1")) == names[:2]
    assert {one.size_bytes for one in storage.below("attempts/1")} == {1}
    storage.delete(["attempts/1/a", "attempts/1/b c/ü"])
    assert list(storage.below("attempts/1")) == []
    assert storage.head("attempts/12/d") is not None


@pytest.mark.parametrize(
    "key", ["/etc/passwd", "a/../b", "a//b", "", ".", "a/./b", "a\nb", "a\0b", "x" * 2000]
)
def test_keys_that_lead_elsewhere_are_refused(storage: Storage, key: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        storage.put(key, a_file(tmp_path, b"x"))
    with pytest.raises(BadRequest):
        storage.read(key)
    with pytest.raises(BadRequest):
        storage.write(key, b"x", version=None)

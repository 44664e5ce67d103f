"""Options of a scheduler on a cluster: what would only fail later is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.scheduler.file_storage.bucket_files import BucketFiles
from gpucommons.scheduler.file_storage.parts import storage_parts
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.wiring.options import read_settings

REPLICA = (
    *("--state", "/s", "--leader-election", "system/scheduler", "--replica", "a"),
    *("--replica-url", "http://10.0.0.1:8000/", "--attempt-key-file", "/k"),
    *("--store-url", "postgresql://db/gpucommons"),
)


def without(name: str) -> list[str]:
    words = list(REPLICA)
    at = words.index(name)
    return words[:at] + words[at + 2 :]


def test_a_replica_knows_its_lease_its_name_and_its_address() -> None:
    found = read_settings(REPLICA, {}).replica
    assert found is not None
    assert (found.lease, found.name, found.url) == (
        "system/scheduler",
        "a",
        "http://10.0.0.1:8000",
    )


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://fd00:10::5:8000", "http://[fd00:10::5]:8000"),
        ("http://[fd00:10::5]:8000", "http://[fd00:10::5]:8000"),
        ("http://scheduler-0.scheduler.svc:8000", "http://scheduler-0.scheduler.svc:8000"),
    ],
)
def test_a_pods_address_of_ipv6_is_put_in_brackets(given: str, url: str) -> None:
    found = read_settings([*without("--replica-url"), "--replica-url", given], {})
    assert found.replica is not None
    assert (found.replica.url, found.own_url) == (url, url)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("--store-url", "SQLite serves one scheduler"),
        ("--replica-url", "--replica-url"),
        ("--attempt-key-file", "--attempt-key-file"),
    ],
)
def test_what_a_replica_cannot_do_without_is_asked_for(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_settings(without(name), {})
    assert said in capsys.readouterr().err


def test_the_store_may_be_named_by_the_environment() -> None:
    found = read_settings(without("--store-url"), {"GPUCOMMONS_STORE_URL": "postgresql://db/x"})
    assert found.replica is not None
    assert found.database == "postgresql://db/x"


def test_several_on_one_sqlite_file_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings([*without("--store-url"), "--store-url", "sqlite:////s/x.db"], {})
    assert "SQLite serves one scheduler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--storage", "s3://jobs"], "--kubernetes"),
        (["--storage", "folder:/jobs", "--kubernetes", "/k"], "--storage-claim"),
    ],
)
def test_a_storage_that_pods_cannot_reach_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--state", "/s", *words], {})
    assert said in capsys.readouterr().err


def test_replicas_without_a_storage_that_they_share_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_a_cluster = [*REPLICA, "--kubernetes", "/k"]
    with pytest.raises(SystemExit):
        read_settings(on_a_cluster, {})
    assert "--leader-election needs --storage" in capsys.readouterr().err
    assert read_settings([*on_a_cluster, "--storage", "s3://jobs"], {}).storage == "s3://jobs"


def test_parts_follow_the_storages_address(tmp_path: Path) -> None:
    none = storage_parts("", None, tmp_path, max_bytes=1)
    assert (none.files, none.mode) == (None, "none")
    volume = storage_parts(f"folder:{tmp_path}/jobs", "jobs", tmp_path, max_bytes=1)
    assert isinstance(volume.files, VolumeFiles)
    assert (volume.mode, volume.claim) == ("volume", "jobs")
    bucket = storage_parts("s3://jobs/prefix", None, tmp_path, max_bytes=1)
    assert isinstance(bucket.files, BucketFiles)
    assert bucket.mode == "links"

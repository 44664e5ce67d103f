"""On a machine with several accounts anybody may listen first, call, or stand between two workers."""

from __future__ import annotations

import os
import queue
import socket
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from gpucommons.scheduler.in_worker import port_owners, ray, spark, worker_messages
from gpucommons.scheduler.in_worker.first_worker import Seat
from gpucommons.scheduler.in_worker.worker_messages import Line, NotJoined

#: Another account's on all addresses of IPv4, ours on 127.0.0.1, and one that is connected only.
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1234        0 1 1
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 0100007F:1F91 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1234        0 3 1
"""
TABLE_6 = """\
  sl  local_address                         remote_address                        st tx rx uid
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 1234 0 1
   1: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 1000 0 2
"""


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOMMONS_TOKEN", "t")


Heard = queue.SimpleQueue[Line]


@pytest.fixture
def listening() -> tuple[tuple[str, int], Heard]:
    place, heard = ("127.0.0.1", worker_messages.free_port()), Heard()
    worker_messages.listen(place, heard.put)
    return place, heard


def test_workers_prove_themselves_and_may_be_silent_afterwards(
    listening: tuple[tuple[str, int], Heard],
) -> None:
    place, heard = listening
    line = worker_messages.call(place)
    line.say({"rank": 1})
    other = heard.get(timeout=60)
    assert other.hear() == {"rank": 1}
    with socket.socket(fileno=os.dup(line._connection.fileno())) as found:
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16) == bytes(16)


def test_a_proof_for_one_worker_is_none_for_another(
    listening: tuple[tuple[str, int], Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, heard = listening
    of_another = worker_messages._proofs(("127.0.0.1", 1))
    monkeypatch.setattr(worker_messages, "_proofs", lambda _place: of_another)
    with pytest.raises(NotJoined, match="no worker of this attempt"):
        worker_messages.call(place)
    assert heard.empty()
    assert of_another.of_caller != of_another.of_listener


def test_who_proves_nothing_keeps_nobody_out(
    listening: tuple[tuple[str, int], Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, heard = listening
    monkeypatch.setattr(worker_messages, "_MOST_UNPROVED", 2)
    monkeypatch.setattr(worker_messages, "_PROVE_S", 1)
    silent = [socket.create_connection(place, timeout=60) for _ in range(4)]
    worker_messages.call(place)
    heard.get(timeout=60)
    for one in silent:
        # Ended by newer ones, or for being silent: a challenge, then the end.
        while one.recv(4096):
            pass
        one.close()


def test_an_attempt_without_a_token_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOMMONS_TOKEN", "")
    for joins in (
        lambda: worker_messages.call(("127.0.0.1", 1)),
        lambda: worker_messages.derived("ray"),
    ):
        with pytest.raises(NotJoined, match="GPUCOMMONS_TOKEN, which is empty"):
            joins()


@pytest.mark.parametrize("table", [TABLE, TABLE_6], ids=["tcp", "tcp6"])
def test_the_kernel_says_whose_a_listener_is(table: str) -> None:
    assert port_owners.owners(table, "127.0.0.1", 8080) == {1234}
    assert port_owners.owners(table, "127.0.0.1", 8081) == {1000}
    assert port_owners.owners(table, "::ffff:127.0.0.1", 8081) == {1000}
    assert port_owners.owners(table, "10.0.0.1", 8081) == set()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux says whose a listener is")
def test_a_listener_of_another_account_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
        assert port_owners.ours_answers(place)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(NotJoined, match="another account of this machine answers"):
            port_owners.ours_answers(place)
    assert not port_owners.ours_answers(place)


@pytest.mark.parametrize(
    ("version", "refusal"),
    [
        ("2.51.1", "could run code as you"),
        ("unknown", "could run code as you"),
        (None, "is not in"),
    ],
)
def test_a_ray_that_is_open_to_others_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: str | None, refusal: str
) -> None:
    def found(_name: str) -> str:
        if version is None:
            raise PackageNotFoundError
        return version

    monkeypatch.setattr(ray, "version", found)
    monkeypatch.setattr(ray, "own_program", lambda name: name)
    offer = ray.Offer(address="", own_port=1, head=":1", cpus=1, gpus=0, memory_mib=0)
    with pytest.raises(NotJoined, match=refusal):
        ray.work(Seat(rank=0, size=1, first=":1"), offer, ["true"])


@pytest.mark.parametrize("version", ["2.52.0", "2.100.0rc1", "3.0.0.dev0"])
def test_newer_ones_are_not(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(ray, "version", lambda _name: version)
    ray.refuse_open()


def test_pages_of_spark_answer_nobody_and_end_nothing(tmp_path: Path) -> None:
    offer = ray.Offer(address="a", own_port=1, head="a:2", cpus=1, gpus=0, memory_mib=0)
    spark._write_settings(tmp_path, offer)
    lines = (tmp_path / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split(" ", 1) for line in lines)
    assert settings["spark.ui.filters"] == "org.glassfish.jersey.servlet.ServletContainer"
    assert settings["spark.ui.killEnabled"] == settings["spark.master.rest.enabled"] == "false"
    assert settings["spark.master.ui.decommission.allow.mode"] == "DENY"


@pytest.mark.parametrize(
    ("known", "own"),
    [("10.0.0.7", "10.0.0.7"), ("127.0.1.1", "gc-7-0.jobs.svc"), (None, "gc-7-0.jobs.svc")],
)
def test_a_worker_says_its_own_address_where_others_know_it_by_name(
    monkeypatch: pytest.MonkeyPatch, known: str | None, own: str
) -> None:
    def look(_name: str) -> str:
        if known is None:
            raise socket.gaierror
        return known

    monkeypatch.setattr(socket, "gethostbyname", look)
    assert worker_messages.own_address("gc-7-0.jobs.svc") == own
    assert worker_messages.own_address("127.0.0.1") == "127.0.0.1"

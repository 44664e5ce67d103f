"""A cloud's word that it takes a machine back, in each cloud's shape, from a service as strict as theirs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from gpucommons.gpu.clouds.fake import FakeMetadata
from gpucommons.gpu.clouds.metadata import MAX_BYTES, Metadata, MetadataError
from gpucommons.gpu.clouds.notice_source import NAMES, CloudNotice, host_and_port
from gpucommons.gpu.clouds.notices import CLOUDS, Azure, Notices

NOW = 1_764_295_200_000


@pytest.fixture
def fake() -> Iterator[FakeMetadata]:
    with FakeMetadata() as service:
        yield service


@pytest.mark.parametrize(
    ("cloud", "in_ms"), [("aws", 120_000), ("azure", 120_000), ("gcp", 30_000)]
)
def test_a_notice_is_heard_with_its_time(fake: FakeMetadata, cloud: str, in_ms: int) -> None:
    looks = CLOUDS[cloud](Metadata(fake.url))
    assert looks.look(NOW) == CloudNotice()
    fake.leaves_ms = NOW + 120_000
    assert looks.look(NOW) == CloudNotice(leaves_ms=NOW + in_ms)
    assert sorted(CLOUDS) == sorted(NAMES)


def test_a_word_without_a_time_counts_from_when_it_was_heard_first(fake: FakeMetadata) -> None:
    times = iter((NOW, NOW + 2_000, NOW + 4_000, NOW + 60_000))
    notices = Notices(CLOUDS["gcp"](Metadata(fake.url)), now_ms=lambda: next(times))
    fake.leaves_ms = NOW
    for _ in range(2):
        notices.look()
        assert notices.notice.leaves_ms == NOW + 30_000
    fake.leaves_ms = None
    notices.look()
    assert notices.notice == CloudNotice()


def test_what_was_heard_stands_while_the_service_is_silent(fake: FakeMetadata) -> None:
    notices = Notices(CLOUDS["aws"](Metadata(fake.url)), now_ms=lambda: NOW)
    fake.leaves_ms = NOW + 120_000
    notices.look()
    with Answering(b"HTTP/1.1 500 Broken\r\n\r\n") as url:
        silent = Notices(CLOUDS["aws"](Metadata(url)), now_ms=lambda: NOW)
        silent._notice = notices.notice
        silent.look()
    assert silent.notice == CloudNotice(leaves_ms=NOW + 120_000)


def test_a_recommendation_to_leave_is_a_risk_and_no_end(fake: FakeMetadata) -> None:
    fake.at_risk = True
    assert CLOUDS["aws"](Metadata(fake.url)).look(NOW) == CloudNotice(at_risk=True)


def test_a_token_that_has_run_out_is_replaced(fake: FakeMetadata) -> None:
    aws = CLOUDS["aws"](Metadata(fake.url))
    aws.look(NOW)
    fake.token, fake.leaves_ms = "token-2", NOW + 60_000
    assert aws.look(NOW).leaves_ms == NOW + 60_000


def test_events_of_other_machines_of_the_group_are_not_ours(fake: FakeMetadata) -> None:
    fake.leaves_ms, fake.resources = NOW + 60_000, ["vm-2"]
    azure = Azure(Metadata(fake.url))
    assert azure.look(NOW) == CloudNotice()
    fake.resources = ["vm-2", "vm-1"]
    assert azure.look(NOW).leaves_ms == NOW + 60_000


@pytest.mark.parametrize("time_of", ["tomorrow", "2031-01-01T00:00:00Z", "", "9" * 400])
def test_a_time_that_nobody_can_believe_is_the_promised_one(
    monkeypatch: pytest.MonkeyPatch, fake: FakeMetadata, time_of: str
) -> None:
    action = '{"action": "terminate", "time": "' + time_of + '"}'
    known = fake.answer
    monkeypatch.setattr(
        fake, "answer", lambda *of: (200, action) if "spot" in of[1] else known(*of)
    )
    assert CLOUDS["aws"](Metadata(fake.url)).look(NOW).leaves_ms == NOW + 120_000


class Answering:
    """Whoever holds the address, with one answer to everything."""

    def __init__(self, answer: bytes, *, dripping: bool = False) -> None:
        self._answer, self._dripping = answer, dripping
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(self._answer)
                    while self._dripping and not self._over.wait(0.02):
                        connection.sendall(b"x")
            except OSError:
                continue


@pytest.mark.parametrize(
    ("answer", "dripping"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_BYTES + 1), False),
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\n\r\nline\nbreak", False),
        (b"SSH-2.0-none\r\n", False),
        (b"", False),
    ],
    ids=["leads elsewhere", "too long", "in drops", "no token", "no HTTP", "nothing"],
)
def test_whoever_else_answers_there_is_not_believed(answer: bytes, dripping: bool) -> None:
    with Answering(answer, dripping=dripping) as url:
        for cloud in CLOUDS.values():
            with pytest.raises(MetadataError):
                cloud(Metadata(url, timeout_s=0.2)).look(NOW)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://10.0.0.1",
        "https://169.254.169.254",
        "http://a@169.254.169.254",
        "http://169.254.169.254/else",
        "169.254.169.254",
        "http://169.254.169.254:x",
        "",
    ],
)
def test_only_addresses_of_the_link_are_asked(url: str) -> None:
    with pytest.raises(ValueError, match="is no metadata service"):
        host_and_port(url)


def test_the_links_addresses_are() -> None:
    assert host_and_port("http://169.254.169.254") == ("169.254.169.254", 80)
    assert host_and_port("http://[fd00:ec2::254]") == ("fd00:ec2::254", 80)

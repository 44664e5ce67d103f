"""The agent's door: who may pass, what they may ask, and what callers cannot do to it."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from free_ports import free_port

from gpucommons.gpu.agent.http_api.bad_tokens import MAX_WRONG, WINDOW_S
from gpucommons.gpu.agent.http_api.http_server import MAX_CONNECTION_S, HttpApi
from gpucommons.gpu.agent.http_api.settings import HttpApiSettings, Inside
from gpucommons.gpu.agent.options import parse
from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.client.agent_transports import HttpTransport
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable, BadAgentRequest, UnknownSlice
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

TOKEN = "a-token-that-nobody-would-ever-guess-0"
POD = "5f0c3b5e-9a1d-4c22-8b7e-0d7c4f6a1b2c"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Room:
    """What is behind the door: it remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = b'{"ok":true,"slices":[]}\n'
        self.is_away = False

    def ask(self, line: bytes) -> bytes:
        if self.is_away:
            raise AgentUnavailable("starting")
        self.asked.append(json.loads(line))
        return self.answer

    def metrics(self) -> bytes:
        return b"gpucommons_device_ok 1\n"


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def door(room: Room, clock: Clock, token_file: Path) -> Iterator[HttpApi]:
    settings = HttpApiSettings(host="127.0.0.1", port=0, token_file=token_file)
    others = {"held": lambda: {"held": [{"namespace": "n", "pod": "p", "device_ids": ["GPU-1"]}]}}
    door = HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics, others=others), clock)
    yield door
    door.close()


def client(door: HttpApi, token: str = TOKEN) -> AgentClient:
    return AgentClient(HttpTransport(url=f"http://127.0.0.1:{door.port}", token=token))


def request(
    door: HttpApi, method: str, path: str, body: bytes | None = None, *, token: str | None = TOKEN
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_scheduler_with_the_token_asks_as_if_it_were_on_the_machine(
    door: HttpApi, room: Room
) -> None:
    assert client(door).slices() == ()
    assert room.asked == [{"request": "slices"}]


def test_what_the_agent_refuses_arrives_as_the_error_that_it_is(door: HttpApi, room: Room) -> None:
    room.answer = b'{"ok":false,"error":"UnknownSlice","message":"open it first"}\n'
    with pytest.raises(UnknownSlice, match="open it first"):
        client(door).reading(SliceId("a"))


def test_what_the_kubelet_gave_is_answered_without_the_loop(door: HttpApi, room: Room) -> None:
    (held,) = client(door).held()
    assert (held.namespace, held.pod, held.device_ids) == ("n", "p", ("GPU-1",))
    assert room.asked == []


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "0", TOKEN[:-1]])
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/ask"), ("GET", "/metrics")])
def test_without_the_token_nobody_passes(
    door: HttpApi, room: Room, token: str | None, method: str, path: str
) -> None:
    status, body = request(door, method, path, b'{"request":"slices"}', token=token)
    assert status == 401
    assert TOKEN.encode() not in body
    assert room.asked == []


@pytest.mark.parametrize("name", ["bind", "admit", "dismiss", "shutdown", None, 3, ["slices"]])
def test_what_speaks_of_this_machines_processes_stays_on_it(
    door: HttpApi, room: Room, name: object
) -> None:
    line = json.dumps({"request": name, "slice_id": "a", "pid": 1, "pod": POD}).encode()
    status, body = request(door, "POST", "/v1/ask", line)
    assert status == 200
    assert json.loads(body)["error"] == "BadAgentRequest"
    assert room.asked == []


def test_a_name_given_twice_is_heard_once_and_the_same_by_both_sides(
    door: HttpApi, room: Room
) -> None:
    request(door, "POST", "/v1/ask", b'{"request":"bind","request":"slices"}')
    assert room.asked == [{"request": "slices"}]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 5000, b'"slices"'])
def test_junk_is_refused_with_a_sentence(door: HttpApi, room: Room, body: bytes) -> None:
    status, answer = request(door, "POST", "/v1/ask", body)
    assert status == 200
    assert json.loads(answer)["error"] == "BadAgentRequest"
    assert room.asked == []


def test_a_request_of_more_than_64_kib_is_not_read(door: HttpApi, room: Room) -> None:
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as connection:
        head = f"POST /v1/ask HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert b" 413 " in connection.recv(4096)
    assert room.asked == []


@pytest.mark.parametrize("length", ["-1", "+5", "0x10", "²", "1e3", ""])
def test_a_length_that_is_no_number_is_refused(door: HttpApi, length: str) -> None:
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as connection:
        head = f"POST /v1/ask HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode("latin-1", "replace"))
        assert b" 413 " in connection.recv(4096)


def test_who_guesses_is_turned_away_for_a_while_and_then_heard_again(
    door: HttpApi, clock: Clock
) -> None:
    for _ in range(MAX_WRONG):
        assert request(door, "GET", "/metrics", token="wrong")[0] == 401
    assert request(door, "GET", "/metrics", token="wrong")[0] == 429
    clock.now_s = WINDOW_S + 1
    assert request(door, "GET", "/metrics", token="wrong")[0] == 401


def test_the_scheduler_passes_whoever_guesses_from_its_address(door: HttpApi) -> None:
    for _ in range(MAX_WRONG + 1):
        request(door, "GET", "/metrics", token="wrong")
    assert client(door).slices() == ()


def test_who_scrapes_metrics_may_ask_for_nothing_else(
    room: Room, token_file: Path, tmp_path: Path
) -> None:
    scraper = "a-token-for-the-scraper-of-metrics-alone"
    path = tmp_path / "metrics-token"
    path.write_text(scraper)
    settings = HttpApiSettings(
        host="127.0.0.1", port=0, token_file=token_file, metrics_token_file=path
    )
    door = HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics))
    try:
        assert request(door, "GET", "/metrics", token=scraper)[0] == 200
        assert request(door, "GET", "/metrics")[0] == 200
        assert request(door, "GET", "/metrics", token="wrong")[0] == 401
        assert request(door, "POST", "/v1/ask", b'{"request":"slices"}', token=scraper)[0] == 401
    finally:
        door.close()
    assert room.asked == []


def test_a_new_token_in_the_secret_is_the_token(door: HttpApi, token_file: Path) -> None:
    other = "another-token-that-nobody-would-guess-1"
    token_file.write_text(other)
    assert request(door, "GET", "/metrics", token=other)[0] == 200
    assert request(door, "GET", "/metrics")[0] == 401


def test_without_a_token_any_more_the_door_is_shut(door: HttpApi, token_file: Path) -> None:
    token_file.unlink()
    assert request(door, "GET", "/metrics", token="")[0] == 503


@pytest.mark.parametrize("content", ["", "short", "\n", "ü" * 40])
def test_a_token_that_could_be_guessed_opens_no_door(
    token_file: Path, room: Room, content: str
) -> None:
    token_file.write_text(content, encoding="utf-8")
    settings = HttpApiSettings(host="127.0.0.1", port=0, token_file=token_file)
    with pytest.raises(ValueError, match="token"):
        HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics))


def test_health_is_open_and_says_whether_the_loop_answers(
    door: HttpApi, room: Room, clock: Clock
) -> None:
    assert request(door, "GET", "/healthz", token=None) == (200, b"ok\n")
    room.is_away = True
    clock.now_s += 1
    assert request(door, "GET", "/healthz", token=None)[0] == 503


def test_an_agent_that_is_starting_counts_as_away(door: HttpApi, room: Room) -> None:
    room.is_away = True
    with pytest.raises(AgentUnavailable, match="starting"):
        client(door).usage()


def test_nobody_at_the_door_counts_as_away() -> None:
    port = free_port()
    with pytest.raises(AgentUnavailable, match="look at the agent's pod"):
        AgentClient(HttpTransport(url=f"http://127.0.0.1:{port}", token=TOKEN)).usage()


def test_a_caller_who_sends_byte_by_byte_is_sent_away_in_time(
    room: Room, token_file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as a byte comes in time nothing else ends it.
    monkeypatch.setattr("gpucommons.gpu.agent.http_api.http_server._TIMEOUT_S", 600.0)
    settings = HttpApiSettings(host="127.0.0.1", port=0, token_file=token_file)
    door = HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics), now_s=clock)
    try:
        with socket.create_connection(("127.0.0.1", door.port), timeout=60) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            # Once it is heard of, its time counts.
            assert client(door).slices() == ()
            clock.now_s = MAX_CONNECTION_S + 1
            assert slow.recv(1) == b""
    finally:
        door.close()


def test_a_head_without_end_is_not_kept(door: HttpApi, room: Room) -> None:
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as caller:
        caller.sendall(b"GET /healthz HTTP/1.1\r\n")
        with suppress(OSError):
            for _ in range(90):
                caller.sendall(b"X: " + b"x" * 60_000 + b"\r\n")
            caller.sendall(b"\r\n")
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""
    assert room.asked == []


def test_whoever_asks_for_its_health_all_the_time_does_not_reach_the_agent(
    door: HttpApi, room: Room
) -> None:
    for _ in range(20):
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
    # The clock of this door stands still.
    assert len(room.asked) == 1


def test_callers_who_say_nothing_do_not_keep_others_out(door: HttpApi) -> None:
    idle = [socket.create_connection(("127.0.0.1", door.port), timeout=60) for _ in range(100)]
    try:
        assert client(door).slices() == ()
    finally:
        for connection in idle:
            connection.close()


def test_who_has_the_token_is_answered_however_many_come_meanwhile(
    room: Room, token_file: Path
) -> None:
    came, go = threading.Event(), threading.Event()

    def slowly(line: bytes) -> bytes:
        came.set()
        go.wait(60)
        return room.ask(line)

    settings = HttpApiSettings(host="127.0.0.1", port=0, token_file=token_file)
    slow = HttpApi(settings, Inside(ask=slowly, metrics=room.metrics))
    idle: list[socket.socket] = []
    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client(slow).slices)
            assert came.wait(60)
            idle += [socket.create_connection(("127.0.0.1", slow.port), 30) for _ in range(100)]
            # Who is answered came after all of them.
            assert request(slow, "GET", "/metrics")[0] == 200
            go.set()
            assert asked.result(60) == ()
    finally:
        go.set()
        for connection in idle:
            connection.close()
        slow.close()


def test_a_crowd_from_one_address_keeps_out_nobody_from_another(door: HttpApi) -> None:
    with ExitStack() as stack:
        caller = stack.enter_context(socket.create_connection(("127.0.0.1", door.port), 60))
        for _ in range(100):
            crowd = socket.create_connection(("127.0.0.1", door.port), 60, ("127.0.0.2", 0))
            stack.enter_context(crowd)
        assert request(door, "GET", "/metrics")[0] == 200
        caller.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in caller.recv(4096)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    _write_certificate(cert, key)
    return cert, key


def _write_certificate(cert: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpucommons-agent")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("gpucommons-agent")]), critical=False
        )
        .sign(private, hashes.SHA256())
    )
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def test_with_a_certificate_the_door_is_asked_by_its_name_and_reached_by_its_address(
    room: Room, token_file: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    settings = HttpApiSettings(
        host="127.0.0.1", port=0, token_file=token_file, cert_file=cert, key_file=key
    )
    door = HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics))
    try:
        url = f"https://127.0.0.1:{door.port}"
        named = HttpTransport(url=url, token=TOKEN, ca_file=cert, server_name="gpucommons-agent")
        assert AgentClient(named).slices() == ()
        for stranger in (
            HttpTransport(url=url, token=TOKEN, ca_file=cert),
            HttpTransport(url=url, token=TOKEN, server_name="gpucommons-agent"),
            HttpTransport(url=url.replace("https", "http"), token=TOKEN),
        ):
            with pytest.raises(AgentUnavailable):
                AgentClient(stranger).slices()
        assert len(room.asked) == 1
    finally:
        door.close()


def test_a_certificate_that_was_renewed_is_shown_to_the_next_caller(
    room: Room, token_file: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    settings = HttpApiSettings(
        host="127.0.0.1", port=0, token_file=token_file, cert_file=cert, key_file=key
    )
    door = HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics))
    try:
        transport = HttpTransport(
            url=f"https://127.0.0.1:{door.port}",
            token=TOKEN,
            ca_file=cert,
            server_name="gpucommons-agent",
        )
        assert AgentClient(transport).slices() == ()
        # Half of it is there: the old one goes on.
        old, half = cert.read_bytes(), cert.with_name("half")
        _write_certificate(half, half.with_name("half-key"))
        cert.write_bytes(half.read_bytes())
        trusted = cert.with_name("old")
        trusted.write_bytes(old)
        assert AgentClient(replace(transport, ca_file=trusted)).slices() == ()
        key.write_bytes(half.with_name("half-key").read_bytes())
        assert AgentClient(transport).slices() == ()
    finally:
        door.close()


@pytest.mark.parametrize(
    "url", ["http://10.1.2.3:8002", "http://node-1:8002", "http://[fd00::1]:1"]
)
def test_the_token_does_not_leave_the_machine_in_clear(url: str) -> None:
    with pytest.raises(AgentUnavailable, match="would send the token in clear"):
        AgentClient(HttpTransport(url=url, token=TOKEN)).slices()


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "10.1.2.3", "[::]", "node-1"],  # noqa: S104 - to see it refused
)
def test_a_door_for_other_machines_needs_a_certificate(
    host: str, token_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dir", "/x", "--door", f"{host}:8002", "--door-token-file", str(token_file)]
    with pytest.raises(SystemExit):
        parse(words)
    assert "cross the network in clear" in capsys.readouterr().err
    assert parse([*words, "--door-in-clear"]).door_in_clear


def test_a_caller_who_never_ends_the_handshake_keeps_nobody_waiting(
    room: Room, token_file: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    settings = HttpApiSettings(
        host="127.0.0.1", port=0, token_file=token_file, cert_file=cert, key_file=key
    )
    door = HttpApi(settings, Inside(ask=room.ask, metrics=room.metrics))
    try:
        with socket.create_connection(("127.0.0.1", door.port), timeout=60):
            context = ssl.create_default_context(cafile=cert)
            context.check_hostname = False
            connection = http.client.HTTPSConnection(
                "127.0.0.1", door.port, timeout=60, context=context
            )
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
            connection.close()
    finally:
        door.close()


@pytest.mark.parametrize("token", ["", "short"])
def test_an_agent_that_cannot_open_its_door_says_why_and_ends(
    short_folder: Path, token_file: Path, token: str
) -> None:
    token_file.write_text(token)
    command = [sys.executable, "-m", "gpucommons.gpu.agent", "--dir", str(short_folder)]
    ended = subprocess.run(
        [*command, "--door", "127.0.0.1:0", "--door-token-file", str(token_file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2
    assert "must hold a token" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_real_agent_serves_its_slices_through_its_door(
    start_agent: Callable[..., tuple[subprocess.Popen[bytes], AgentClient]], token_file: Path
) -> None:
    port = free_port()
    _, local = start_agent(
        "--simulate", "2", "--ignore-real", "--node", "n1",
        "--door", f"127.0.0.1:{port}", "--door-token-file", str(token_file),
    )  # fmt: skip
    far = AgentClient(HttpTransport(url=f"http://127.0.0.1:{port}", token=TOKEN), timeout_s=60)
    report = far.devices()
    assert report.node == "n1"
    gpu_slice = GpuSlice(
        slice_id=SliceId("a"),
        shares=(DeviceShare(device_id=DeviceId("sim-0"), milli_gpu=500),),
        memory_mib=share_memory_mib(report.devices[0], 500),
    )
    far.open(gpu_slice)
    assert local.slices() == far.slices() == (gpu_slice,)
    assert far.reading(SliceId("a")).pids == ()
    with pytest.raises(BadAgentRequest):
        far.bind(SliceId("a"), 1)
    far.close_slice(SliceId("a"))
    assert local.slices() == ()

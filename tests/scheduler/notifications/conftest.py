"""A real mail server and a real receiver of webhooks on loopback, with what they were given."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass
class MailServer:
    """What it was given, and how it answers."""

    port: int = 0
    #: Certificate and key; then STARTTLS is offered.
    certificate: tuple[Path, Path] | None = None
    mails: list[EmailMessage] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    #: Whether each mail came over TLS.
    over_tls: list[bool] = field(default_factory=list)
    #: Answers to RCPT, by address.
    refuses: dict[str, str] = field(default_factory=dict)
    goodbye: str = "221 bye"


class _Mail(StreamRequestHandler):
    """As much of SMTP as a client needs that sends one message."""

    timeout = 20
    to: MailServer

    def handle(self) -> None:
        self.tls = False
        self.callbacks: list[Callable[[], None]] = []
        try:
            self._talk()
        finally:
            for close in self.callbacks:
                close()

    def _talk(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline():
            verb = line.strip().decode().upper().split(" ")[0]
            if verb == "QUIT":
                self._say(self.to.goodbye)
                return
            self._answer(verb, line.strip().decode())

    def _answer(self, verb: str, line: str) -> None:
        if verb == "EHLO":
            offers = ["250-here"]
            if self.to.certificate is not None and not self.tls:
                offers.append("250-STARTTLS")
            self._say(*offers, "250 AUTH PLAIN")
        elif verb == "STARTTLS" and self.to.certificate is not None:
            self._say("220 go on")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.to.certificate)
            try:
                secure = context.wrap_socket(self.connection, server_side=True)
            except ssl.SSLError:
                return  # a client that does not believe us hangs up
            self.callbacks.append(secure.close)
            self.rfile, self.wfile = secure.makefile("rb"), secure.makefile("wb")
            self.tls = True
        elif verb == "AUTH":
            self.to.logins.append(base64.b64decode(line.split(" ")[2]).decode())
            self._say("235 welcome")
        elif verb == "RCPT":
            address = line.partition("<")[2].partition(">")[0]
            self._say(self.to.refuses.get(address, "250 ok"))
        elif verb == "DATA":
            self._say("354 go on")
            lines = []
            while (line_of_mail := self.rfile.readline()) != b".\r\n":
                lines.append(line_of_mail.removeprefix(b"."))
            self.to.mails.append(message_from_bytes(b"".join(lines), policy=policy.default))
            self.to.over_tls.append(self.tls)
            self._say("250 taken")
        else:
            self._say("250 ok")

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())
        self.wfile.flush()


@dataclass
class Receiver:
    """What was posted to it, and how it answers."""

    port: int = 0
    posts: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    status: int = 204
    #: It answers byte by byte, and never to an end.
    drips: bool = False
    location: str = ""

    def url(self, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}/hook?team=a"


class _Posted(BaseHTTPRequestHandler):
    to: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.to.posts.append((self.path, dict(self.headers), body))
        while self.to.drips:
            try:
                self.wfile.write(b"H")
            except OSError:
                return
            Event().wait(0.02)
        self.send_response(self.to.status)
        if self.to.location:
            self.send_header("Location", self.to.location)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """The tests say what they saw."""


@contextmanager
def _served(server: ThreadingTCPServer) -> Iterator[int]:
    server.daemon_threads = True
    thread = Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    found = MailServer()
    handler = type("Mail", (_Mail,), {"to": found})
    with _served(ThreadingTCPServer(("127.0.0.1", 0), handler)) as found.port:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    handler = type("Posted", (_Posted,), {"to": found})
    with _served(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as found.port:
        yield found


@pytest.fixture
def tls_receiver(certificate: tuple[Path, Path]) -> Iterator[Receiver]:
    found = Receiver()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Posted", (_Posted,), {"to": found}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with _served(server) as found.port:
        yield found


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Of localhost, by nobody."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(private, hashes.SHA256())
    )
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert, key


@pytest.fixture
def trusted(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this machine trust it, as an operator does with a CA of their own."""
    return lambda: monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))

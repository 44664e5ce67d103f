"""Messages leave by real mail and HTTP servers: plain, signed, to where they may go and nowhere else."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.notifications import addresses, smtp, webhook
from gpucommons.scheduler.notifications.preferences import (
    About,
    Channel,
    Choice,
    Telling,
    notification,
)
from gpucommons.scheduler.notifications.settings import (
    MailSettings,
    WebhookSettings,
    default_address,
    read_login,
    refusal,
)
from gpucommons.scheduler.wiring.app import read_notifications

ANN = UserName("ann")
HERE = WebhookSettings(http=True, allow=("127.0.0.0/8",))
KEY = webhook.signing_key(b"k" * 32, ANN, 1)


def a_message(subject: str = "digits-1 finished", **changes: Any) -> Any:
    told = Telling(
        owner=ANN,
        about=About.FINISH,
        source="event 7",
        at_ms=Millis(1_800_000_000_000),
        subject=subject,
        text="digits-1 finished.\nIt held 2.00 GPU-hours.",
        facts={"name": "digits-1", "number": 7},
    )
    return notification(told, changes.get("channel", Channel.MAIL), Millis(1_800_000_000_000))


def settings(port: int, **changes: Any) -> MailSettings:
    values = {
        "host": "localhost",
        "port": port,
        "tls": "none",
        "sender": "gpu@example.org",
        "domains": ["example.org"],
    }
    return MailSettings.model_validate(values | changes)


def choice(url: str) -> Choice:
    return Choice(owner=ANN, webhook=frozenset({About.FINISH}), url=url, key_number=1)


# --- mail ----------------------------------------------------------------------------------------


def test_a_mail_says_what_happened_in_plain_text_under_an_id_that_stays(
    mail_server: Any,
) -> None:
    smtp.send(settings(mail_server.port), a_message(), "ann@example.org")
    smtp.send(settings(mail_server.port), a_message(), "ann@example.org")
    first, again = mail_server.mails
    assert first["Subject"] == "[GPU Commons] digits-1 finished"
    assert (first["From"], first["To"]) == ("gpu@example.org", "ann@example.org")
    assert first["Auto-Submitted"] == "auto-generated"
    assert first.get_content_type() == "text/plain"
    assert "It held 2.00 GPU-hours." in first.get_content()
    assert first["Message-ID"] == again["Message-ID"]
    assert first["X-GPUCommons-Id"] == a_message().notification_id


def test_a_mail_that_was_taken_is_sent_whatever_the_goodbye(mail_server: Any) -> None:
    mail_server.goodbye = "451 busy"
    smtp.send(settings(mail_server.port), a_message(), "ann@example.org")
    assert len(mail_server.mails) == 1


def test_the_login_goes_over_tls_alone_and_to_a_server_that_is_who_it_says(
    mail_server: Any,
    certificate: tuple[Path, Path],
    trusted: Callable[[], None],
    tmp_path: Path,
) -> None:
    login = tmp_path / "login"
    login.write_text("gpu\nsecret\n")
    login.chmod(0o600)
    asked = settings(mail_server.port, tls="starttls", login_file=login)
    for is_offered in (False, True):
        mail_server.certificate = certificate if is_offered else None
        with pytest.raises(Unavailable) as refused:
            smtp.send(asked, a_message(), "ann@example.org")
        assert "secret" not in str(refused.value)
    assert mail_server.logins == mail_server.mails == []
    trusted()
    smtp.send(asked, a_message(), "ann@example.org")
    assert mail_server.logins == ["\0gpu\0secret"]
    assert mail_server.over_tls == [True]


def test_what_the_server_refuses_for_good_is_not_tried_again_and_the_rest_is(
    mail_server: Any,
) -> None:
    mail_server.refuses = {
        "no@example.org": "550 no such user",
        "later@example.org": "450 mailbox is busy",
    }
    with pytest.raises(BadRequest, match=r"no@example\.org was refused: 550 no such user"):
        smtp.send(settings(mail_server.port), a_message(), "no@example.org")
    with pytest.raises(Unavailable, match=r"later@example\.org was refused: 450 mailbox is busy"):
        smtp.send(settings(mail_server.port), a_message(), "later@example.org")
    with pytest.raises(BadRequest, match=r"Mail to other\.org is not allowed here"):
        smtp.send(settings(mail_server.port), a_message(), "ann@other.org")


@given(st.text(max_size=300))
def test_no_name_of_a_job_begins_a_header_of_its_own(name: str) -> None:
    made = smtp.as_mail(settings(25), a_message(f"{name}\r\nBcc: eve@other.org"), "ann@example.org")
    head, _, _ = made.as_bytes().partition(b"\n\n")
    assert made["Bcc"] is None
    assert b"\nBcc" not in head
    assert len(made["Subject"].splitlines()) == 1


def test_an_address_is_one_plain_one_of_an_allowed_domain() -> None:
    asked = settings(25, domains=["Example.org"], address="{username}@example.org")
    assert refusal(asked, "ann@EXAMPLE.org") is None
    for text in ("ann", "a@b@example.org", "ann@example.org, eve@example.org", "ann@x\n.org", "@x"):
        assert "is no mail address" in (refusal(asked, text) or "")
    assert "Allowed: Example.org." in (refusal(asked, "ann@sub.example.org") or "")
    assert refusal(settings(25, domains=["*"]), "ann@anywhere.net") is None
    assert default_address(asked, "ann") == "ann@example.org"
    assert default_address(asked, "ann@site") == ""
    assert default_address(settings(25), "ann") == ""


# --- webhooks ------------------------------------------------------------------------------------


def test_a_webhook_is_signed_so_that_its_receiver_knows_whom_and_when_it_is_from(
    receiver: Any,
) -> None:
    webhook.send(HERE, a_message(), choice(receiver.url()), KEY, 1_800_000_000)
    ((path, headers, body),) = receiver.posts
    assert path == "/hook?team=a"
    assert headers["X-GPUCommons-Id"] == a_message().notification_id
    # As the howto tells receivers to check it.
    signed = f"{headers['X-GPUCommons-Time']}.".encode() + body
    expected = hmac.new(KEY.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-GPUCommons-Signature"] == f"sha256={expected}"
    said = json.loads(body)
    assert said["id"] == a_message().notification_id
    assert (said["about"], said["user"], said["facts"]) == (
        "finish",
        "ann",
        {"name": "digits-1", "number": 7},
    )


def test_keys_differ_by_user_and_number_and_by_installation() -> None:
    keys = {
        webhook.signing_key(key, UserName(user), number)
        for key in (b"a" * 32, b"b" * 32)
        for user in ("ann", "bob")
        for number in (1, 2)
    }
    assert len(keys) == 8


def test_a_webhook_follows_nobody_elsewhere(receiver: Any) -> None:
    receiver.status, receiver.location = 302, "http://127.0.0.1:1/inside"
    with pytest.raises(BadRequest, match=r"127\.0\.0\.1 answered with status 302"):
        webhook.send(HERE, a_message(), choice(receiver.url()), KEY, 1)
    assert len(receiver.posts) == 1
    for status, error in ((500, Unavailable), (429, Unavailable), (410, BadRequest)):
        receiver.status = status
        with pytest.raises(error, match=f"status {status}"):
            webhook.send(HERE, a_message(), choice(receiver.url()), KEY, 1)


def test_over_tls_it_goes_only_to_who_it_is_for(
    tls_receiver: Any, trusted: Callable[[], None]
) -> None:
    url = tls_receiver.url("localhost", "https")
    with pytest.raises(Unavailable, match="did not take it: SSLCertVerificationError"):
        webhook.send(HERE, a_message(), choice(url), KEY, 1)
    trusted()
    webhook.send(HERE, a_message(), choice(url), KEY, 1)
    assert len(tls_receiver.posts) == 1


def test_an_answer_that_never_ends_is_cut_off(
    receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_TIMEOUT_S", 0.3)
    receiver.drips = True
    with pytest.raises(Unavailable, match="did not take it"):
        webhook.send(HERE, a_message(), choice(receiver.url()), KEY, 1)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - nothing listens there
        "224.0.0.1",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::]",
        "[::]",
        "192.0.0.192",
        "168.63.129.16",
        "[::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[fec0::2]",
        "[::ffff:0:127.0.0.1]",
        "[2a00::5efe:7f00:1]",
        "[2a00::200:5efe:7f00:1]",
        "192.88.99.1",
        "[100:0:0:1::1]",
    ],
)
def test_no_address_inside_of_the_site_is_reached(host: str) -> None:
    public = WebhookSettings(http=True)
    with pytest.raises(BadRequest, match="inside of this site's own network"):
        addresses.read_target(f"http://{host}/", public)


def test_a_name_is_judged_by_all_that_it_stands_for(
    receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = WebhookSettings(http=True)
    assert addresses.read_target("http://localhost/", public).host == "localhost"
    for url in (receiver.url("localhost"), receiver.url("2130706433")):
        with pytest.raises(BadRequest, match="inside of this site's own network"):
            webhook.send(public, a_message(), choice(url), KEY, 1)
    mixed = [(2, 1, 6, "", (ip, 80)) for ip in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: mixed)
    with pytest.raises(BadRequest, match="inside of this site's own network"):
        addresses.resolve(addresses.read_target("http://example.org/", public), public)
    assert receiver.posts == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/", "without TLS are not allowed"),
        ("ftp://example.org/", "no address for a webhook"),
        ("https:///x", "no address for a webhook"),
        ("https://example.org:0x/", "no address for a webhook"),
        ("https://ann:secret@example.org/", "holds no login"),
        ("https://example.org/#x", "holds no login"),
        ("https://example.org/a b", "plain characters"),
        ("https://example.org/a\r\nX: y", "plain characters"),
        ("https://exämple.org/", "plain characters"),
        ("https://example.org/" + "a" * 500, "plain characters"),
    ],
)
def test_an_address_that_is_none_is_refused_with_what_to_write(url: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as refused:
        addresses.read_target(url, WebhookSettings())
    assert "secret" not in str(refused.value)


# --- the operator's file -------------------------------------------------------------------------


def test_the_file_is_read_whole_or_refused_with_the_place_of_the_mistake(tmp_path: Path) -> None:
    file, login = tmp_path / "told.yaml", tmp_path / "login"
    login.write_text("gpu\nsecret\n")
    login.chmod(0o600)
    whole = (
        "mail: {host: smtp.example.org, sender: gpu@example.org, domains: [example.org],"
        f" login_file: {login}}}\nwebhooks: {{allow: [10.1.2.0/24]}}\n"
    )
    file.write_text(whole)
    found = read_notifications(file)
    assert found.mail is not None
    assert (found.mail.tls, found.mail.port) == ("starttls", 587)
    assert read_login(login) == ("gpu", "secret")
    for text, why in (
        (whole.replace("sender: gpu@example.org", "sender: gpu"), "no mail address"),
        (
            whole.replace("domains: [example.org]", "domains: []"),
            r"mail\.domains: needs at least 1",
        ),
        (
            whole.replace("host:", "tls: ssl, host:"),
            "mail.tls: must be 'starttls', 'tls' or 'none'$",
        ),
        (
            whole.replace("login_file:", "logn_file:"),
            "there is no such field; did you mean login_file",
        ),
        (whole.replace("host: smtp.example.org", "tls: none, host: x"), "readable"),
        (
            whole.replace("10.1.2.0/24", "inside"),
            r"line 2, webhooks\.allow\.0: a network is needed, as in 10\.1\.2\.0/24 or fd00::/8$",
        ),
        ("mail: {password: secret}", "line 1, mail.host: this field is needed"),
        ("mail: [", "does not say how people are told"),
    ):
        file.write_text(text)
        with pytest.raises(BadRequest, match=why) as refused:
            read_notifications(file)
        assert "secret" not in str(refused.value)
    file.write_text("")
    assert read_notifications(file).mail is None


def test_a_login_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.write_text("gpu\nsecret\n")
    login.chmod(0o604)
    with pytest.raises(ValueError, match=f"can be read by others: chmod 600 {login}"):
        read_login(login)
    login.chmod(0o600)
    login.write_text("gpu\n")
    with pytest.raises(ValueError, match="the user on its first line"):
        read_login(login)

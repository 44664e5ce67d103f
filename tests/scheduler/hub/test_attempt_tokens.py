"""A token tells its attempt, and cannot be made without the key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.hub.attempt_tokens import attempt_of, load_key, token_of

ID = AttemptId("0190aaaa-0000-7000-8000-000000000001")


def test_a_token_tells_whose_it_is(tmp_path: Path) -> None:
    key = load_key(tmp_path / "attempt-key")
    token = token_of(key, ID)
    assert token.startswith("gca-")
    assert attempt_of(key, token) == ID


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"),
        lambda token: token.replace("0001.", "0002."),
        lambda token: token.removeprefix("gca-"),
        lambda token: token + "0",
        lambda token: token.split(".")[0],
        lambda _token: "",
        lambda _token: "gca-ä.ö",
    ],
)
def test_an_altered_token_is_nobodys(change: object) -> None:
    token = token_of(b"k" * 32, ID)
    assert attempt_of(b"k" * 32, change(token)) is None  # type: ignore[operator] # a function


def test_another_key_makes_other_tokens() -> None:
    assert attempt_of(b"a" * 32, token_of(b"b" * 32, ID)) is None


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "attempt-key"
    assert load_key(path) == load_key(path)
    assert len(load_key(path)) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [f.name for f in tmp_path.iterdir()] == ["attempt-key"]


def test_a_damaged_key_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "attempt-key"
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="not a key"):
        load_key(path)
    assert path.read_bytes() == b"short"

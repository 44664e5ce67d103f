"""What leaves an installation says nothing that opens it, and nobody's name unless that is wanted.

Three nets, one behind the other. Values that are known to be secret here are looked for letter by letter,
wherever they stand. What a user wrote (commands, variables, parameters) is left out by its field's
name, as is every field that is named like a secret. In text, whatever looks like a token, a password in an
address or a long key goes. Ids stay: without them nothing could be followed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

REDACTED, LEFT_OUT = "[redacted]", "[left out]"
#: A secret that is shorter would be found in ordinary words.
_SHORTEST = 6

_SECRET_NAME = re.compile(
    r"token|secret|passw|credential|private|cookie|authorization|api_?key|access_?key|_key$|^key$",
    re.IGNORECASE,
)
#: Written by users, and so whatever they like.
_USERS_OWN = frozenset(
    {"arguments", "command", "cwd", "env", "function", "links", "module", "parameters", "variables"}
)
#: Logs hold what strangers asked for: none of these may look at one stretch of it again and again.
_IN_TEXT = (
    # a password in an address
    (re.compile(r"(?<=://)[^\s/@:]*:[^\s@]{1,1024}(?=@)"), REDACTED),
    # headers, and what follows a word for it
    (
        re.compile(r"\b(bearer|token|basic)[ ]+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
        rf"\1 {REDACTED}",
    ),
    (
        re.compile(
            r"(?<![\w-])((?=[\w-]*?"
            r"(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|credential|_xsrf|code))"
            r"[\w-]++[\"']?\s*+[=:]\s*+)(\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # tokens of attempts, of GitHub, Hugging Face, AWS and the like
    (re.compile(r"\b(?:gca|gh[pousr]|hf|sk|xox[abpr]|glpat)[-_][A-Za-z0-9_.-]{12,}"), REDACTED),
    (re.compile(r"\bAKIA[A-Z0-9]{12,}\b"), REDACTED),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*"), REDACTED),
    # keys in hexadecimal; checksums go with them
    (re.compile(r"(?<![\w-])[0-9a-fA-F]{32,}(?![\w-])"), REDACTED),
    (re.compile(r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|\Z)", re.DOTALL), REDACTED),
)


class Redaction:
    """Made once for a bundle, so that one user has one name in all of its files."""

    def __init__(self, secrets: Iterable[str], names: Collection[str] = ()) -> None:
        found = {one for one in secrets if len(one) >= _SHORTEST}
        self._secrets = _any_of(found)
        shown = sorted({one for one in names if one})
        self._users = {name: f"user-{number}" for number, name in enumerate(shown, 1)}
        self._names = _any_of(shown, whole=True)

    def text(self, text: str) -> str:
        """Lines of a log, or a value."""
        if self._secrets is not None:
            text = self._secrets.sub(REDACTED, text)
        for pattern, put in _IN_TEXT:
            text = pattern.sub(put, text)
        if self._names is not None:
            text = self._names.sub(lambda found: self._users[found[0]], text)
        return text

    def document(self, value: Any, name: str = "") -> Any:
        """A document of JSON; ``name`` is the field that it stands in."""
        if name in _USERS_OWN and value:
            return LEFT_OUT
        if isinstance(value, str):
            return REDACTED if value and _SECRET_NAME.search(name) else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.document(one, key) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.document(one, name) for one in value]
        return value


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """Values of variables whose names say so, or that hold a password."""
    passwords = (re.search(r"://[^/@:]*:([^@]+)@", value) for value in environ.values())
    return [
        *(value for name, value in environ.items() if _SECRET_NAME.search(name)),
        *(found[1] for found in passwords if found),
    ]


def _any_of(words: Collection[str], *, whole: bool = False) -> re.Pattern[str] | None:
    if not words:
        return None
    # The longest first: one may begin another.
    found = "|".join(re.escape(one) for one in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{found})(?![\w-])" if whole else found)

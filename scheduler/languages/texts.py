"""gettext's functions over the catalogues beside them, in the language of whoever is answered.

A page is made by many functions, and each says something: the language is no argument of all of them but
is set once for a request, as web frameworks do it. Whoever sets none gets English.

What is read is JSON, as for the panel: a binary catalogue would have to be made at each installation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from gettext import c2py
from pathlib import Path

ENGLISH = "en"
_FOLDER = Path(__file__).parent / "locale"
_PLURAL = "plural="


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalogue:
    """The texts of one domain in one language."""

    #: By the English text: its translation, or those for one and for many.
    texts: Mapping[str, Sequence[str]]
    #: Which of the forms a number takes.
    form: Callable[[int], int]


_language: ContextVar[str] = ContextVar("the language of what is answered", default=ENGLISH)


@cache
def languages() -> tuple[str, ...]:
    """Those that pages can be had in, English first."""
    return ENGLISH, *sorted(path.name for path in _FOLDER.iterdir() if path.is_dir())


def language() -> str:
    """That of what is answered now."""
    return _language.get()


def answer_in(name: str) -> None:
    """Say all that this request is answered with in one of :func:`languages`."""
    _language.set(name)


@contextmanager
def spoken(name: str) -> Iterator[None]:
    """The same for a block."""
    token = _language.set(name)
    try:
        yield
    finally:
        _language.reset(token)


def gettext(message: str, **values: object) -> str:
    """The text in the reader's language; ``%(name)s`` stands for a value."""
    text = of_template(message)
    return text % values if values else text


def ngettext(one: str, many: str, number: int, **values: object) -> str:
    """The form that goes with a number, which ``%(num)s`` stands for."""
    return of_template_many(one, many, number) % {"num": number, **values}


def of_template(message: str) -> str:
    """The translation before values come in: Jinja puts them there itself, and escapes them."""
    found = _catalogue("pages", _language.get()).texts.get(message)
    return found[0] if found else message


def of_template_many(one: str, many: str, number: int) -> str:
    """The same with forms for one and for many."""
    catalogue = _catalogue("pages", _language.get())
    found = catalogue.texts.get(one, (one, many))
    return found[catalogue.form(number)]


def gettext_noop(message: str) -> str:
    """Only marks a text for the catalogue: what is made once is translated where it is shown."""
    return message


def texts_for_scripts() -> Mapping[str, str]:
    """What the scripts of the pages say; empty in English."""
    found = _catalogue("scripts", _language.get()).texts
    return {message: forms[0] for message, forms in found.items()}


@cache
def _catalogue(domain: str, name: str) -> Catalogue:
    if name == ENGLISH:
        return Catalogue(texts={}, form=lambda number: int(number != 1))
    path = _FOLDER / name / "LC_MESSAGES" / f"{domain}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    rule = str(data.pop("")["plural_forms"]).partition(_PLURAL)[2].strip("; ")
    return Catalogue(texts=data, form=c2py(rule))

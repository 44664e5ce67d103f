"""Catalogues are whole: what the sources say is translated, nothing else is, and it is what is read."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from collections import defaultdict

import pytest
from babel.messages.catalog import Catalog
from jupyterlab_server import translation_utils

from deploy.translations import catalogues
from deploy.translations.catalogues import ALL, DOCUMENTS, PANEL, ROOT, SCRIPTS, Texts

LANGUAGES = [(texts, language) for texts in ALL for language in texts.languages()]
NAMED = [f"{texts.domain}-{language}" for texts, language in LANGUAGES]


class Some(Texts):
    """Of a part that has one text."""

    kept = PANEL.kept

    def template(self) -> Catalog:
        return of((self.domain, ""))


def of(*messages: tuple[str | tuple[str, ...], str | tuple[str, ...] | None]) -> Catalog:
    catalog = Catalog(locale="de_DE", domain="some")
    for text, translation in messages:
        catalog.add(text, translation)
    return catalog


@pytest.mark.parametrize(("texts", "language"), LANGUAGES, ids=NAMED)
def test_every_text_is_translated_with_its_placeholders(texts: Texts, language: str) -> None:
    """Where this fails: ``make translations``, then translate what it names."""
    assert texts.problems(texts.read(language)) == []


@pytest.mark.parametrize(("texts", "language"), LANGUAGES, ids=NAMED)
def test_what_is_read_is_made_from_what_translators_edit(texts: Texts, language: str) -> None:
    """Where this fails: ``make translations``."""
    for path, text in texts.made(language).items():
        assert path.read_text(encoding="utf-8") == text


def test_a_page_of_the_documentation_keeps_its_links_and_its_code() -> None:
    kept = DOCUMENTS[0].kept

    assert kept.findall("See [`up`](a.md), or [b](c.md#d).") == ["`up`", "](a.md)", "](c.md#d)"]


def test_no_text_of_the_panel_is_overlooked() -> None:
    calls = {
        path.relative_to(ROOT).as_posix(): len(re.findall(r"\.\s*_[_np]p?\(", path.read_text()))
        for path in PANEL.sources()
    }
    found: dict[str, int] = defaultdict(int)
    for one in PANEL.found():
        found[one.path] += 1

    assert found == {path: count for path, count in calls.items() if count}


def test_no_text_of_the_pages_scripts_is_overlooked() -> None:
    """Also where it stands within another text."""
    source = "".join(path.read_text() for path in SCRIPTS.sources())
    said = re.findall(r"gettext\(\s*'((?:[^'\\]|\\.)+)'", source)

    assert set(said) == {message.id for message in SCRIPTS.template() if message.id}


def test_no_text_is_asked_for_with_and_without_a_number() -> None:
    """JupyterLab takes the forms of many for no translation of the one without."""
    shapes = defaultdict(set)
    for one in PANEL.found():
        forms = catalogues.forms(one.text)
        shapes[one.context, forms[0]].add(len(forms))

    assert [text for text, sizes in shapes.items() if len(sizes) > 1] == []


@pytest.mark.parametrize(
    ("translated", "problem"),
    [
        (of(("%1 of %2", "%1 von %2")), []),
        (of(("%1 of %2", "")), ["not translated: '%1 of %2'"]),
        (of(("%1 of %2", None)), ["not translated: '%1 of %2'"]),
        (of(("%1 of %2", "%1 von 2")), ["other placeholders: '%1 of %2'"]),
        (of(("%1 of %2", "%1 von %2, %3")), ["other placeholders: '%1 of %2'"]),
        (of(), ["not in the catalogue: '%1 of %2'"]),
        (
            of(("%1 of %2", "%1 von %2"), ("gone", "weg")),
            ["no longer in the sources: 'gone'"],
        ),
    ],
)
def test_what_is_missing_stale_or_other_is_named(translated: Catalog, problem: list[str]) -> None:
    assert Some(domain="%1 of %2", folder="").problems(translated) == problem


def test_the_form_of_one_may_leave_its_number_out() -> None:
    """But not that of many."""
    texts = Some(domain=("%1 line", "%1 lines"), folder="")  # type: ignore[arg-type] # as a text

    assert texts.problems(of((texts.domain, ("eine Zeile", "%1 Zeilen")))) == []
    assert texts.problems(of((texts.domain, ("eine Zeile", "Zeilen")))) == [
        "other placeholders: '%1 line'"
    ]


def test_jupyterlab_finds_the_panel_s_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry point of the wheel, beside a language pack of JupyterLab itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = translation_utils.JUPYTERLAB_LOCALE_ENTRY
    points = [
        importlib.metadata.EntryPoint(name=name, value=value, group=group)
        for name, value in project["entry-points"][group].items()
    ]
    monkeypatch.setattr(translation_utils, "entry_points", lambda group: points)

    found, message = translation_utils.get_installed_packages_locale("de_DE")

    assert message == ""
    assert found == {"gpucommons": json.loads(*PANEL.made("de_DE").values())}

"""Each catalogue: where its texts stand in the sources, and where its files lie."""

from __future__ import annotations

import atexit
import json
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from docs.languages import TRANSLATED
from gpucommons.gpu.providers.stack import ISOLATION_SENTENCES
from gpucommons.scheduler.core.model import state_words
from gpucommons.scheduler.models.reports import REPORT_COLUMNS
from gpucommons.scheduler.models.text.plan_words import GRADES

ROOT = Path(__file__).parents[2]
#: As JupyterLab's TranslationBundle calls them, without the dot before.
_OF_LAB = {"__": None, "_n": (1, 2), "_p": ((1, "c"), 2), "_np": ((1, "c"), 2, 3)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A text in the sources."""

    path: str
    line: int
    text: str | tuple[str, ...]
    context: str | None


@dataclass(frozen=True, kw_only=True)
class Texts(ABC):
    """The texts of one part of the product, in all languages."""

    #: As the part asks for it.
    domain: str
    #: Holds ``LANGUAGE/LC_MESSAGES/DOMAIN.po``, and what is made from it.
    folder: str
    #: What a translation must have as the text has it.
    kept: ClassVar[re.Pattern[str]]

    @abstractmethod
    def template(self) -> Catalog:
        """A catalogue of all texts, without translations."""

    def languages(self) -> list[str]:
        """Those that it is translated into."""
        return sorted(path.name for path in (ROOT / self.folder).iterdir() if path.is_dir())

    def po(self, language: str) -> Path:
        """What translators edit."""
        return ROOT / self.folder / language / "LC_MESSAGES" / f"{self.domain}.po"

    def made(self, language: str) -> dict[Path, str]:
        """What the product reads, where it reads something else."""
        del language
        return {}

    def read(self, language: str) -> Catalog:
        """The catalogue as it is."""
        with self.po(language).open("rb") as file:
            return read_po(file, locale=language, domain=self.domain)

    def updated(self, language: str) -> Catalog:
        """The catalogue with the texts that the sources have now, and no others."""
        catalog = self.read(language)
        template = self.template()
        # A date that changes each time would be a change in each commit.
        template.creation_date = catalog.creation_date
        catalog.update(template, no_fuzzy_matching=True)
        for message in catalog:
            message.flags.discard("python-format")
        return catalog

    def problems(self, catalog: Catalog) -> list[str]:
        """What is wrong with a catalogue, as sentences; empty where all is well."""
        ours = {_key(message): message for message in catalog if message.id}
        wanted = {_key(message): message for message in self.template() if message.id}
        return [
            *(f"not in the catalogue: {key!r}" for key in wanted.keys() - ours.keys()),
            *(f"no longer in the sources: {key!r}" for key in ours.keys() - wanted.keys()),
            *self._mistakes({key: ours[key] for key in wanted.keys() & ours.keys()}),
        ]

    def _mistakes(self, messages: Mapping[str, Message]) -> Iterator[str]:
        for key, message in messages.items():
            translated = forms(message.string or "")
            if not all(translated) or message.fuzzy:
                yield f"not translated: {key!r}"
                continue
            # The one of one thing may leave its number out; that of many may not.
            expected = self._kept(forms(message.id)[-1])
            if self._kept(translated[-1]) != expected or any(
                not self._kept(form) <= expected for form in translated
            ):
                yield f"other placeholders: {key!r}"

    def _kept(self, text: str) -> set[str]:
        return set(self.kept.findall(text))


class Panel(Texts):
    """Texts of TypeScript, as JupyterLab translates them."""

    kept = re.compile(r"%\d")

    def sources(self) -> Iterator[Path]:
        """The files that hold texts."""
        for path in sorted((ROOT / "labextension" / "src").rglob("*.ts*")):
            if ".spec." not in path.name and "testing" not in path.parts:
                yield path

    def found(self) -> Iterator[Found]:
        """Every text in the sources, in the order of files and lines."""
        for path in self.sources():
            options = {
                "jsx": "true" if path.suffix == ".tsx" else "false",
                "parse_template_string": True,
            }
            with path.open("rb") as file:
                for line, text, _, context in extract("javascript", file, _OF_LAB, (), options):
                    yield Found(
                        path=path.relative_to(ROOT).as_posix(),
                        line=line,
                        text=text,
                        context=context,
                    )

    def template(self) -> Catalog:
        """Found by Babel."""
        catalog = Catalog(domain=self.domain)
        for one in self.found():
            message = catalog.add(one.text, locations=[(one.path, one.line)], context=one.context)
            # JupyterLab's placeholders are not Python's, whatever they look like.
            message.flags.discard("python-format")
        return catalog

    def made(self, language: str) -> dict[Path, str]:
        """The JSON for JupyterLab."""
        return {self.po(language).with_suffix(".json"): json_text(self.read(language))}


class Pages(Texts):
    """Texts of the pages of service and hub: of Python and of templates, as gettext has them."""

    #: Values, and what is marked up.
    kept = re.compile(r"%\(\w+\)s|<[^>]+>")
    #: Found by name in Python, and in templates as Jinja says it.
    _names: ClassVar = {
        "_": None,
        "gettext": None,
        "gettext_noop": None,
        "ngettext": (1, 2),
        "gpucommons_text": None,
    }
    _of_jinja: ClassVar = {"newstyle_gettext": "true"}

    def sources(self) -> Iterator[Path]:
        """The files that hold texts."""
        for folder in ("scheduler/languages", "scheduler/models", "scheduler/pages", "spawner"):
            yield from sorted((ROOT / folder).rglob("*.py"))
        yield from sorted((ROOT / "scheduler/pages/templates").glob("*.html"))
        yield from sorted((ROOT / "spawner/templates").rglob("*.html"))

    def template(self) -> Catalog:
        """Found by Babel and Jinja, and the words that pages share with other screens."""
        catalog = Catalog(domain=self.domain)
        for path in self.sources():
            is_python = path.suffix == ".py"
            method = "python" if is_python else "jinja2.ext:babel_extract"
            options = {} if is_python else self._of_jinja
            with path.open("rb") as file:
                for line, text, _, _ in extract(method, file, self._names, (), options):
                    catalog.add(text, locations=[(path.relative_to(ROOT).as_posix(), line)])
        for text in self._shared():
            catalog.add(text)
        return _plain(catalog)

    @staticmethod
    def _shared() -> Iterator[str]:
        """States, columns and the like: one word of each for all screens, translated on pages alone."""
        yield from ISOLATION_SENTENCES.values()
        yield from GRADES.values()
        yield from REPORT_COLUMNS
        for words in (
            state_words.JOB_WORDS,
            state_words.LEASE_WORDS,
            state_words.NODE_WORDS,
            state_words.HELD_WORDS,
        ):
            yield from words.values()

    def made(self, language: str) -> dict[Path, str]:
        """The JSON that the pages read."""
        return {self.po(language).with_suffix(".json"): json_text(self.read(language))}


class Scripts(Pages):
    """Texts of the pages' scripts."""

    #: Texts within others are looked for, too: `${gettext('Saved.')} …`.
    _of_scripts: ClassVar = {"parse_template_string": True}

    def sources(self) -> Iterator[Path]:
        """The files that hold texts, but for libraries."""
        yield from sorted((ROOT / "scheduler" / "pages" / "static").glob("*.js"))

    def template(self) -> Catalog:
        """Found by Babel."""
        catalog = Catalog(domain=self.domain)
        for path in self.sources():
            with path.open("rb") as file:
                names, options = {"gettext": None}, self._of_scripts
                for line, text, _, _ in extract("javascript", file, names, (), options):
                    catalog.add(text, locations=[(path.relative_to(ROOT).as_posix(), line)])
        return _plain(catalog)


def _plain(catalog: Catalog) -> Catalog:
    """Without the mark that Babel gives to texts with a per cent sign, whatever stands behind it."""
    for message in catalog:
        message.flags.discard("python-format")
    return catalog


class Document(Texts):
    """A page of the documentation, as Sphinx translates it."""

    #: Where links lead, and code.
    kept = re.compile(r"\]\([^)]+\)|`[^`]+`")

    def template(self) -> Catalog:
        """Found by Sphinx."""
        catalog = Catalog(domain=self.domain)
        with (_texts_of_documents() / f"{self.domain}.pot").open("rb") as file:
            for message in read_po(file):
                if message.id:
                    catalog.add(message.id, locations=[(f"docs/{self.domain}.md", 1)])
        return catalog


@cache
def _texts_of_documents() -> Path:
    folder = Path(mkdtemp(prefix="gpucommons-texts-"))
    atexit.register(shutil.rmtree, folder)
    pages = ",".join(f"{each.domain}.md" for each in DOCUMENTS)
    subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-q", "-b", "gettext"),
            # Links to all other pages lead nowhere here.
            *("-D", f"include_patterns={pages}", "-D", "suppress_warnings=toc,myst"),
            *(str(ROOT / "docs"), str(folder)),
        ],
        check=True,
    )
    return folder


PANEL = Panel(domain="gpucommons", folder="labextension/locale")
DOCUMENTS = tuple(Document(domain=page, folder="docs/locale") for page in TRANSLATED)
PAGES = Pages(domain="pages", folder="scheduler/languages/locale")
SCRIPTS = Scripts(domain="scripts", folder="scheduler/languages/locale")
ALL: tuple[Texts, ...] = (PANEL, PAGES, SCRIPTS, *DOCUMENTS)


def po_text(catalog: Catalog) -> bytes:
    """The catalogue as a PO file: which file a text is from, but no lines, which change too often."""
    file = BytesIO()
    write_po(file, catalog, width=100, include_lineno=False, ignore_obsolete=True)
    return file.getvalue()


def compiled(catalog: Catalog) -> dict[str, Any]:
    """As JupyterLab reads it (Jed 1.x): each text with its translation, or those of its forms."""
    language = str(catalog.locale).replace("_", "-")
    data: dict[str, Any] = {
        "": {
            "domain": catalog.domain,
            "language": language,
            "plural_forms": catalog.plural_forms,
        }
    }
    for message in catalog:
        if message.id and all(forms(message.string or "")) and not message.fuzzy:
            data[_key(message)] = list(forms(message.string))
    return data


def json_text(catalog: Catalog) -> str:
    """The same as a file."""
    return json.dumps(compiled(catalog), ensure_ascii=False, indent=1) + "\n"


def forms(text: object) -> tuple[str, ...]:
    """A text, or those for one and for many."""
    return (text,) if isinstance(text, str) else tuple(text)  # type: ignore[arg-type]


def _key(message: Message) -> str:
    text = forms(message.id)[0]
    return f"{message.context}\x04{text}" if message.context else text

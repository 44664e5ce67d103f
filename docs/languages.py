"""The site in other languages: some pages are translated, and lead to English ones for all else.

``python docs/languages.py`` builds them beside the English site, which is built first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
SITE = DOCS.parent / "build" / "docs"

TRANSLATED = ("index", "tutorial/first-notebook")
LANGUAGES = {"en": "English", "de": "Deutsch"}


def lead_to_english(app: Any) -> None:
    """In another language, what is not translated lies one folder up: the English site."""
    if app.builder.format != "html" or app.config.language == "en":
        return
    of_this_site = app.builder.get_target_uri

    def target(page: str, kind: str | None = None) -> str:
        found: str = of_this_site(page, kind)
        return found if page in TRANSLATED else f"../{found}"

    app.builder.get_target_uri = target
    # That of the English site is used: it has all pages.
    app.builder.search = False


def read_translated_alone(app: Any, env: Any, pages: list[str]) -> None:
    """In another language all else is known from the English site: that it is read there will do."""
    if app.config.language != "en":
        pages[:] = [page for page in pages if page in TRANSLATED or page not in env.titles]


def name_the_others(app: Any, page: str, _: str, context: dict[str, Any], *__: Any) -> None:
    """For the template: where the same page is in the other languages."""
    here = app.config.language
    up = "../" * (page.count("/") + (here != "en"))
    context["languages"] = [
        (code, name, f"{up}{'' if code == 'en' else f'{code}/'}{page}.html")
        for code, name in LANGUAGES.items()
        if page in TRANSLATED and code != here
    ]
    path_to = context["pathto"]
    # The theme asks for it whether this site has one or not.
    context["pathto"] = lambda to, *given, **named: (
        ("../" if here != "en" and to == "searchindex.js" else "") + path_to(to, *given, **named)
    )


def build(language: str) -> None:
    """Read and write the translated pages alone. They lead to all by title, as the English site read it."""
    pages = [str(DOCS / f"{page}.md") for page in TRANSLATED]
    out = SITE / language
    shutil.rmtree(out / ".doctrees", ignore_errors=True)
    if (SITE / ".doctrees").is_dir():
        shutil.copytree(SITE / ".doctrees", out / ".doctrees")
    subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "sphinx",
                "-q",
                "-W",
                "-b",
                "html",
                "-D",
                f"language={language}",
            ),
            *(str(DOCS), str(out), *pages),
        ],
        check=True,
    )
    # Sphinx writes an index, and what lists a page whose title has changed.
    for path in out.rglob("*.html"):
        if path.relative_to(out).with_suffix("").as_posix() not in TRANSLATED:
            path.unlink()


if __name__ == "__main__":
    for each in LANGUAGES:
        if each != "en":
            build(each)

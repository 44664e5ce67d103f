"""The documentation as a site: built without a warning, no link to nowhere, found, and usable by everybody."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect

from docs.languages import TRANSLATED

ROOT = Path(__file__).parents[3]
#: Of each shape one: cards, prose with commands, a wide table with notes, generated pages.
PAGES = (
    "index.html",
    "tutorial/lead.html",
    "explanation/compared.html",
    "howto/index.html",
    "reference/configuration.html",
    "reference/generated/commands.html",
    "de/tutorial/first-notebook.html",
)


@pytest.fixture(scope="module")
def site() -> Path:
    """Where ``make docs`` puts it, so that what is the same is not built again."""
    out = ROOT / "build" / "docs"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*command, str(ROOT / "docs"), str(out)], capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    subprocess.run([sys.executable, ROOT / "docs" / "languages.py"], check=True)
    return out


class _Page(HTMLParser):
    """What it names and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.leads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in {"href", "src"} and value and tag != "base":
                self.leads.add(value)


def nowhere(pages: dict[Path, _Page]) -> Iterator[str]:
    """Links of the site to what is not there."""
    for path, page in pages.items():
        for lead in page.leads:
            if "://" in lead or (lead.startswith(("mailto:", "data:", "#")) and len(lead) < 2):
                continue
            target, fragment = urldefrag(unquote(lead))
            found = (path.parent / target.partition("?")[0]).resolve() if target else path
            if not found.exists() or (
                fragment and found in pages and fragment not in pages[found].ids
            ):
                yield f"{path.name} → {lead}"


def pages_of(site: Path) -> list[Path]:
    """All but what the theme brings for itself."""
    return [path for path in site.rglob("*.html") if "_static" not in path.parts]


def test_no_link_leads_to_nowhere(site: Path) -> None:
    pages = {path: _Page(path.read_text()) for path in pages_of(site)}
    assert len(pages) > 60
    assert sorted(nowhere(pages)) == []


def test_the_test_would_find_such_a_link(tmp_path: Path) -> None:
    text = '<p id="a"></p><a href="#a">1</a><a href="#b">2</a><a href="c.html">3</a>'
    path = tmp_path / "one.html"
    path.write_text(text)
    assert sorted(nowhere({path: _Page(text)})) == ["one.html → #b", "one.html → c.html"]


def test_every_page_says_of_which_version_it_speaks(site: Path) -> None:
    said = f"GPU Commons {version('gpucommons')}"
    assert [path.name for path in pages_of(site) if said not in path.read_text()] == []


def test_every_column_of_a_table_is_named(site: Path) -> None:
    """As axe asks of a page, and here of all: a column without a name is read out without one."""
    nameless = [
        path.name
        for path in pages_of(site)
        for head in BeautifulSoup(path.read_text(), "html.parser").find_all("th")
        if not head.get_text(strip=True)
    ]
    assert nameless == []


@pytest.fixture(scope="module", params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(color_scheme=request.param)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_read_it(site: Path, page: Page, name: str) -> None:
    page.goto(f"file://{site / name}")
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"][:3]]) for one in found] == []


def test_what_is_looked_for_is_found(site: Path, page: Page) -> None:
    page.goto(f"file://{site / 'search.html'}?q=fence")
    expect(page.locator("#search-results a").first).to_be_visible()


def texts(path: Path) -> set[str]:
    """What a page says, piece by piece, without its name."""
    article = BeautifulSoup(path.read_text(), "html.parser").article
    assert article
    return {each.get_text(strip=True) for each in article.select("h2, p, th, td")} - {""}


@pytest.mark.parametrize("name", [f"{page}.html" for page in TRANSLATED])
def test_a_page_and_its_german_text_lead_to_each_other(site: Path, page: Page, name: str) -> None:
    page.goto(f"file://{site / name}")
    page.get_by_role("link", name="Deutsch").click()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    assert texts(site / "de" / name) & texts(site / name) == set()
    page.get_by_role("link", name="English").click()
    expect(page).to_have_url(f"file://{site / name}")

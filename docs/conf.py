"""Sphinx configuration: MyST pages in Diátaxis folders."""

import sys
from importlib.metadata import version as _version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import generated
import languages
from import_graph import draw

project = "GPU Commons"
author = "GPU Commons contributors"
release = version = _version("gpucommons")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
html_theme = "pydata_sphinx_theme"
html_title = f"GPU Commons {release}"
html_static_path: list[str] = []
templates_path = ["_templates"]
language = "en"
locale_dirs = ["locale"]
gettext_compact = False
#: Of which version a page speaks stands on each page, beside the name.
html_theme_options = {
    "logo": {"text": f"GPU Commons {release}"},
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "navbar_end": ["language", "theme-switcher", "navbar-icon-links"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
html_show_sourcelink = False
copyright = f"{author}, BSD-3-Clause"  # noqa: A001 - Sphinx' own name for it
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_templates", "locale"]


def setup(app: Any) -> None:
    """Make what follows from the code: pictures of its imports, pages of its calls and commands."""

    def draw_imports(app: Any) -> None:
        # Of other languages only some pages are written, beside the English ones.
        if app.builder.name == "gettext" or app.config.language != "en":
            return
        generated.write(Path(__file__).parent / "reference" / "generated")
        draw(
            Path(__file__).parent / "explanation" / "drawn",
            {
                "core": "gpucommons.scheduler.core",
                "scheduler": "gpucommons.scheduler",
                "gpu": "gpucommons.gpu",
            },
        )

    app.connect("builder-inited", draw_imports)
    app.connect("builder-inited", languages.lead_to_english)
    app.connect("env-before-read-docs", languages.read_translated_alone)
    app.connect("html-page-context", languages.name_the_others)

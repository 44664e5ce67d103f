"""Sphinx configuration: MyST pages in Diátaxis folders."""

import sys
from importlib.metadata import version as _version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from import_graph import draw

project = "GPU Commons"
author = "GPU Commons contributors"
release = version = _version("gpucommons")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
html_theme = "pydata_sphinx_theme"
html_title = "GPU Commons"
html_static_path: list[str] = []
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]


def setup(app: Any) -> None:
    """Draw the pictures of the architecture from the imports as they are."""

    def draw_imports(_: Any) -> None:
        draw(
            Path(__file__).parent / "explanation" / "drawn",
            {
                "core": "gpucommons.scheduler.core",
                "scheduler": "gpucommons.scheduler",
                "gpu": "gpucommons.gpu",
            },
        )

    app.connect("builder-inited", draw_imports)

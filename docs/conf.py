"""Sphinx configuration: MyST pages in Diátaxis folders."""

from importlib.metadata import version as _version

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

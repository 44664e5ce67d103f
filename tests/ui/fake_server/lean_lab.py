"""A JupyterLab without what the tests of our panel never touch: each of their pages loads it anew.

Lab compiles the schema of every extension's settings at each load, a quarter of what a page computes.
The whole of Lab, beside ours, is what the story of the product loads (``test_product.py``).
"""

from __future__ import annotations

import json
from pathlib import Path

#: Extensions of Lab itself.
_LEFT_OUT = (
    *("audio", "celltags", "completer", "console", "csvviewer", "debugger", "documentsearch"),
    *("extensionmanager", "help", "htmlviewer", "imageviewer", "inspector", "javascript", "json"),
    *("logconsole", "lsp", "markdownviewer", "mathjax", "mermaid", "metadataform", "pdf"),
    *("pluginmanager", "toc", "tooltip", "video", "workspaces"),
)
#: Parts of others that cannot be without one of those.
_WITH_THEM = (
    "@jupyterlab/fileeditor-extension:completer",
    "@jupyterlab/fileeditor-extension:language-server",
    "@jupyterlab/fileeditor-extension:search",
    "@jupyterlab/notebook-extension:completer",
    "@jupyterlab/notebook-extension:language-server",
    "@jupyterlab/notebook-extension:search",
    "@jupyterlab/notebook-extension:toc",
    "@jupyterlab/notebook-extension:update-raw-mimetype",
)
_OF_OTHERS = ("@jupyter-notebook/lab-extension", "jupyterlab_pygments")


def write_lean_lab(config: Path) -> None:
    """For a Lab with this folder of configuration."""
    page = config / "labconfig" / "page_config.json"
    page.parent.mkdir(parents=True, exist_ok=True)
    names = (*(f"@jupyterlab/{name}-extension" for name in _LEFT_OUT), *_WITH_THEM, *_OF_OTHERS)
    # Whether Lab must be built anew is asked by each page, too, and is worked out by the server.
    settings = {"disabledExtensions": dict.fromkeys(names, True), "buildCheck": False}
    page.write_text(json.dumps(settings))

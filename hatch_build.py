"""Build hook: make an editable install import the top-level folders as ``gpucommons.*``.

The wheel maps ``scheduler/`` to ``gpucommons/scheduler`` and so on. An editable install cannot
rename folders, so this hook links each of them into ``build/editable/gpucommons``, which the
install puts on ``sys.path``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EditableLinksHook(BuildHookInterface):
    """Links each mapped folder under ``build/editable`` in an editable build."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the links; a wheel needs none."""
        if version != "editable":
            return
        root = Path(self.root)
        for folder, package in self.build_config.sources.items():
            link = root / "build" / "editable" / package
            link.parent.mkdir(parents=True, exist_ok=True)
            if link.is_symlink() or link.exists():
                link.unlink()
            if sys.platform == "win32":
                import _winapi  # noqa: PLC0415 - exists on Windows alone

                _winapi.CreateJunction(str(root / folder), str(link))
            else:
                link.symlink_to(os.path.relpath(root / folder, link.parent))

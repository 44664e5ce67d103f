"""Build hook: links for an editable install, and the shim's libraries for this machine.

The wheel maps ``scheduler/`` to ``gpucommons/scheduler`` and so on. An editable install cannot
rename folders, so this hook links each of them into ``build/editable/gpucommons``, which the
install puts on ``sys.path``.

The shim is compiled C. A wheel that holds it says so in its tag; without a compiler, or on a
system that has no shim, it is a wheel for everybody that lacks it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Builds a wheel for another architecture than this machine's; needs ziglang.
MACHINE_VARIABLE = "GPUCOMMONS_SHIM_MACHINE"
_SHIM = "gpu/shim"
_PRELOADS = "gpu/hibernation/preload/lib"


class GpuCommonsHook(BuildHookInterface):
    """Links each mapped folder under ``build/editable``, compiles the shim."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """A compiler from PyPI where the machine has none."""
        building = self._building()
        try:
            building.compiler(self._machine)
        except building.CannotBuildShim:
            return ["ziglang"] if building.supported(self._machine) else []
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the links in an editable build, the libraries in any."""
        if version == "editable":
            self._link_folders()
        building = self._building()
        folder = building.LIBRARIES if version == "editable" else Path(self.root, "build", "shim")
        try:
            # Stripped: nothing of the machine that built it is in it.
            building.build(folder, machine=self._machine, flags=["-s"])
            beside = building.PRELOADS if version == "editable" else folder
            building.build_preloads(beside, machine=self._machine, flags=["-s"])
        except building.CannotBuildShim as error:
            self.app.display_warning(f"Built without the shim: {error}")
            return
        if version == "editable":
            return
        build_data["pure_python"] = False
        oldest = "_".join(map(str, building.OLDEST_GLIBC))
        build_data["tag"] = f"py3-none-manylinux_{oldest}_{self._machine}"
        for library in (building.CUDA, building.NVML):
            target = f"gpucommons/{_SHIM}/{building.LIBRARIES.name}/{library}"
            build_data["force_include"][str(folder / library)] = target
        for library in building.PRELOADED:
            target = f"gpucommons/{_PRELOADS}/{library}"
            build_data["force_include"][str(folder / library)] = target

    @property
    def _machine(self) -> str:
        return os.environ.get(MACHINE_VARIABLE) or platform.machine()

    def _building(self) -> ModuleType:
        """The package's own module, before the package exists."""
        path = Path(self.root, _SHIM, "building.py")
        spec = importlib.util.spec_from_file_location("shim_building", path)
        if spec is None or spec.loader is None:
            message = f"{path} cannot be loaded; the source is not whole."
            raise ImportError(message)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _link_folders(self) -> None:
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

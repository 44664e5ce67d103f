"""GPU Commons in JupyterLab: the server extension, and the widgets for notebooks.

``from gpucommons.labextension import TrainPanel, GpuMonitor, advise``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpucommons.labextension.widgets import GpuMonitor, TrainPanel, advise

__all__ = ["GpuMonitor", "TrainPanel", "advise"]


def __getattr__(name: str) -> Any:
    # Widgets on demand: the server need not load ipywidgets, a kernel need not load the server.
    if name in __all__:
        from gpucommons.labextension import widgets  # noqa: PLC0415 - see above

        return getattr(widgets, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from gpucommons.labextension.extension import (  # noqa: PLC0415 - only servers need it
        GpuCommonsExtension,
    )

    return [{"module": "gpucommons.labextension", "app": GpuCommonsExtension}]

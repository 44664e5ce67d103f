"""A pytest plugin: JupyterHub's own tests, with our spawner in place of its simple one.

Loaded before the tests, so that their ``MockSpawner``, and every spawner derived from it, is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jupyterhub.spawner

from gpucommons.spawner.form.answers import NotebookOptions
from gpucommons.spawner.local import GpuLocalSpawner


class SharedAccountSpawner(GpuLocalSpawner):
    """Ours as the suite needs it: any user name, one account."""

    shared_account = True
    home_dir_template = "/tmp/{username}"  # noqa: S108 - as in the spawner it stands for

    def notebook_options(self, raw: Mapping[str, object] | None = None) -> NotebookOptions:
        """The suite hands options of its own through; ours refuses unknown ones."""
        return NotebookOptions()

    def read_form(self, form_data: Mapping[str, object]) -> Any:
        return form_data


jupyterhub.spawner.SimpleLocalProcessSpawner = SharedAccountSpawner

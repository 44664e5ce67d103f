"""What an admin says to an adapter: one YAML file, read once."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.yaml_errors import read_model

M = TypeVar("M", bound=BaseModel)


def read_file(path: Path | None, kind: type[M], *, executor: str) -> M:
    """Read it.

    Raises
    ------
    BadRequest
        When none is named, or it cannot be read, or says something that cannot be.
    """
    if path is None:
        message = (
            f"Its settings are in a file: start the scheduler with --executor {executor}=FILE."
        )
        raise BadRequest(message)
    try:
        return read_model(kind, path.read_text())
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
    except BadRequest as error:
        message = f"{path}: {error}"
    raise BadRequest(message)

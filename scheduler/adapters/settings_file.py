"""What an admin says to an adapter: one YAML file, read once."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.files.yaml_text import read_yaml
from gpucommons.scheduler.models.text.yaml_errors import field_sentences, syntax_sentence

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
        text = path.read_text()
        return kind.model_validate(read_yaml(text))
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
    except yaml.YAMLError as error:
        message = f"{path}: {syntax_sentence(error)}"
    except ValidationError as error:
        message = f"{path}: {field_sentences(text, error)}"
    raise BadRequest(message)

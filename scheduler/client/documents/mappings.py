"""A YAML file whose content is a mapping: what is no such file is said with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.yaml_errors import syntax_sentence

#: A larger file is no description of a job or of teams.
MAX_BYTES = 4 << 20


def read_mapping(path: Path, *, of: str) -> dict[str, Any]:
    """Read a YAML file that must be a mapping ``of`` something.

    Raises
    ------
    BadRequest
        When it cannot be read, or is not such a file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            message = f"{path} is larger than {MAX_BYTES >> 20} MiB: this is not such a file."
            raise BadRequest(message)
        document = yaml.safe_load(content)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise BadRequest(message) from None
    except (yaml.YAMLError, RecursionError) as error:
        message = f"{path} is not YAML: {syntax_sentence(error)}."
        raise BadRequest(message) from None
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        message = f"{path} must be a mapping of {of}."
        raise BadRequest(message)
    return document

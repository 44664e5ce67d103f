"""Files of pools, teams and policy, as admins write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.client.documents.mappings import MAX_CONFIG_BYTES, read_mapping
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.yaml_errors import field_sentences


def read_config(path: Path) -> models.ConfigModel:
    """Read pools, teams and policy."""
    document = read_mapping(path, of="pools, teams or policy", max_bytes=MAX_CONFIG_BYTES)
    return config_of(path, document)


def config_of(path: Path, document: dict[str, Any]) -> models.ConfigModel:
    """The same of what was read.

    Raises
    ------
    BadRequest
        With the field that is wrong, and its line.
    """
    try:
        return models.ConfigModel.model_validate(document)
    except ValidationError as error:
        message = f"{path}: {field_sentences(path.read_bytes(), error)}"
        raise BadRequest(message) from None

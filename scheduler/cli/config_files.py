"""Files of pools, teams and policy, as admins write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.client.documents.mappings import (
    MAX_CONFIG_BYTES,
    mapping_in,
    read_content,
)
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.yaml_errors import field_sentences


def read_config(path: Path) -> models.ConfigModel:
    """Read pools, teams and policy."""
    content = read_content(path, max_bytes=MAX_CONFIG_BYTES)
    return config_of(path, content, mapping_in(content, path, of="pools, teams or policy"))


def config_of(path: Path, content: bytes, document: dict[str, Any]) -> models.ConfigModel:
    """The same of what was read, and what of that is left to look at.

    Raises
    ------
    BadRequest
        With the field that is wrong, and its line.
    """
    try:
        return models.ConfigModel.model_validate(document)
    except ValidationError as error:
        message = f"{path}: {field_sentences(content, error)}"
        raise BadRequest(message) from None

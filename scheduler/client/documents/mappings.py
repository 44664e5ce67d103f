"""A YAML file whose content is a mapping: what is no such file is said with its line."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import yaml

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.files.yaml_text import read_yaml
from gpucommons.scheduler.models.text.yaml_errors import syntax_sentence

#: A larger file describes no job, sweep, schedule or pipeline: a server reads one while others wait.
MAX_BYTES = 256 << 10
#: Nor pools and teams, of which there may be thousands.
MAX_CONFIG_BYTES = 4 << 20
_STANDARD = Path("-")


def read_mapping(path: Path, *, of: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read a YAML file that must be a mapping ``of`` something.

    Raises
    ------
    BadRequest
        When it cannot be read, or is not such a file.
    """
    return mapping_in(read_content(path, max_bytes=max_bytes), path, of=of)


def read_content(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """What is in the file (``-`` is standard input), once: what is said of it later is of the same bytes.

    Raises
    ------
    BadRequest
        When it cannot be read, or is larger.
    """
    try:
        with nullcontext(sys.stdin.buffer) if path == _STANDARD else path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise BadRequest(message) from None
    if len(content) > max_bytes:
        message = f"{path} is larger than {max_bytes >> 10:,} KiB: this is not such a file."
        raise BadRequest(message)
    return content


def mapping_in(content: bytes, path: Path, *, of: str) -> dict[str, Any]:
    """The mapping that a file's content is.

    Raises
    ------
    BadRequest
        When it is not such a file.
    """
    try:
        document = read_yaml(content)
    except yaml.YAMLError as error:
        message = f"{path} is not YAML: {syntax_sentence(error)}."
        raise BadRequest(message) from None
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        message = f"{path} must be a mapping of {of}."
        raise BadRequest(message)
    return document

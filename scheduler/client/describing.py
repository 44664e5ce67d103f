"""A model as the advisor is told of it: what was read of a configuration or a trace, as numbers to send.

Reading happens where the files and the modules are; the service gets sizes and no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.descriptors.huggingface import from_config
from gpucommons.scheduler.advisor.descriptors.keras import KerasLayer, from_summary
from gpucommons.scheduler.advisor.descriptors.traced import from_module
from gpucommons.scheduler.advisor.network import Network, Traced, Transformer, Unknown
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.scripts.frameworks import MAX_BYTES as MAX_SOURCE_BYTES
from gpucommons.scheduler.scripts.frameworks import read_script

#: Configurations of models are a few KiB.
MAX_BYTES = 1 << 20
_MOST_WORDS = 500
Framework = Literal["torch", "keras", "megatron", "torchtitan"]


def described(network: Network) -> models.NetworkModel:
    """The same as it is sent; what is beyond all bounds is unknown."""
    try:
        match network:
            case Transformer():
                return models.TransformerModel(kind="transformer", **asdict(network))
            case Traced():
                return models.TracedModel(kind="traced", **asdict(network))
            case Unknown():
                why = " ".join(network.why.split())[:_MOST_WORDS]
                return models.UnknownModel(
                    kind="unknown", why="".join(c for c in why if c.isprintable())
                )
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"])
        return models.UnknownModel(
            kind="unknown", why=f"The description cannot be: {field} is out of all bounds."
        )


def of_config(config: Mapping[str, Any]) -> models.NetworkModel:
    """From a Hugging Face configuration."""
    return described(from_config(config))


def of_module(module: Any, *inputs: Any, limit_s: float) -> models.NetworkModel:
    """From a module of torch, run once with one sample on the meta device, in the caller's process."""
    return described(from_module(module, *inputs, limit_s=limit_s))


def of_keras(model: Any) -> models.NetworkModel:
    """From the layers of a built Keras model."""
    try:
        layers = [
            KerasLayer(
                kind=type(layer).__name__,
                output_shape=tuple(layer.output.shape[1:]),
                parameters=int(layer.count_params()),
            )
            for layer in model.layers
        ]
        return described(from_summary(layers))
    except (AttributeError, TypeError, ValueError) as error:
        why = f"The layers of this model could not be read ({type(error).__name__})."
        return models.UnknownModel(kind="unknown", why=why)


def framework_of_script(path: Path) -> Framework:
    """Whose arguments a script takes: ``torch`` where it takes nobody's, or cannot be read.

    Raises
    ------
    BadRequest
        When there is no such file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from None
    return as_framework(read_script(path.name, content).takes)


def as_framework(takes: str) -> Framework:
    """The same as a request has it."""
    match takes:
        case "megatron" | "torchtitan":
            return takes
        case _:
            return "torch"


def of_config_file(path: Path) -> models.NetworkModel:
    """From a file ``config.json``, or the folder of a model that has one.

    Raises
    ------
    BadRequest
        When there is none, or it is no such file.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            message = (
                f"{file} is larger than {MAX_BYTES >> 20} MiB: this is no model's configuration."
            )
            raise BadRequest(message)
        found = json.loads(content)
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}."
        raise BadRequest(message) from None
    except (ValueError, RecursionError):
        message = f"{file} is no JSON: name the config.json of a Hugging Face model."
        raise BadRequest(message) from None
    if not isinstance(found, dict):
        message = f"{file} holds no mapping: name the config.json of a Hugging Face model."
        raise BadRequest(message)
    return of_config(found)

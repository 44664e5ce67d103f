"""``advise(model, data)`` in a cell: plans for the model that this kernel holds.

The module is run once on the meta device, here, in the user's own process and under a limit of time;
what goes to the scheduler are sizes. A module that cannot be read is *unknown*, with the reason.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from gpucommons.labextension.widgets.surroundings import connect
from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.descriptors.keras import KerasLayer, from_summary
from gpucommons.scheduler.advisor.descriptors.traced import from_module
from gpucommons.scheduler.advisor.network import Network, Traced, Unknown
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.describing import described, of_config
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.words.plan_words import advice_text

T = TypeVar("T")

#: Reading one batch of the data takes longer only where it does much else.
LIMIT_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One batch of the data, as the model takes it."""

    #: Positional inputs, one sample each.
    inputs: tuple[Any, ...]
    batch: int | None
    #: Tokens of a sample; 1 where it has none.
    sequence: int


class Advice:
    """What was answered; shown as text, kept as numbers in :attr:`view`."""

    def __init__(self, view: models.AdviceView) -> None:
        self.view = view

    @property
    def plans(self) -> list[models.PlanView]:
        """Best first."""
        return self.view.plans

    def __repr__(self) -> str:
        return advice_text(self.view, _by)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def advise(
    model: Any,
    data: Any = None,
    *,
    epochs: int = 1,
    connect_to: Callable[[], SchedulerClient] = connect,
    limit_s: float = LIMIT_S,
    **options: Any,
) -> Advice:
    """Plans for training ``model`` on ``data``.

    ``model`` is a module of torch (a Hugging Face model is one, too) or a built Keras model; ``data`` a
    loader, or one batch: a tensor, a tuple of tensors, or a mapping of them. ``options`` are the fields
    of ``POST /v1/advise``: ``batch``, ``steps``, ``sequence``, ``objective``, ``deadline_ms``,
    ``precision``, ``team``, ``pools`` …; what is given wins over what the data says.

    Raises
    ------
    BadRequest
        When neither the data nor an option says how large a batch is, or how long it trains.
    """
    sample = _sample(data, limit_s)
    is_keras = hasattr(model, "layers") and hasattr(model, "count_params")
    network, sequence = _described(model, sample, is_keras=is_keras, limit_s=limit_s)
    batch = options.pop("batch", None) or sample.batch
    if batch is None:
        raise BadRequest("Say how many samples one optimizer step has: advise(model, batch=256).")
    fields: dict[str, Any] = {
        "network": network,
        "batch": batch,
        "sequence": sequence,
        "steps": options.pop("steps", None) or _steps(data, epochs, sample.batch, batch),
        "framework": "keras" if is_keras else "torch",
    }
    request = models.AdviceRequest(**{**fields, **options})
    with connect_to() as scheduler:
        return Advice(scheduler.send(calls.advise(request)))


def _steps(data: Any, epochs: int, loaded: int | None, batch: int) -> int:
    try:
        batches = len(data)
    except TypeError:
        batches = 0
    if not batches or loaded is None or hasattr(data, "shape") or isinstance(data, tuple | Mapping):
        raise BadRequest(
            "Say how many optimizer steps it trains: advise(model, batch, steps=10_000)."
        )
    return max(1, -(-batches * loaded * epochs // batch))


def _described(
    model: Any, sample: Sample, *, is_keras: bool, limit_s: float
) -> tuple[models.NetworkModel, int]:
    """The model in numbers, and the tokens of a sample as that description counts them."""
    if is_keras:
        return described(_keras(model)), 1
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        read = of_config(config.to_dict())
        if not isinstance(read, models.UnknownModel):
            return read, sample.sequence
    if not hasattr(model, "named_parameters"):
        why = f"{type(model).__name__} is neither a module of torch nor a Keras model."
        return models.UnknownModel(kind="unknown", why=why), 1
    if not sample.inputs:
        why = "Without data the layers of this model cannot be counted: advise(model, loader)."
        return models.UnknownModel(kind="unknown", why=why), 1
    return described(_traced(model, sample, limit_s)), 1


def _traced(model: Any, sample: Sample, limit_s: float) -> Network:
    """With the first input alone where the model takes no more: loaders give labels, too."""
    found = from_module(model, *sample.inputs, limit_s=limit_s)
    if isinstance(found, Traced) or len(sample.inputs) == 1:
        return found
    return from_module(model, sample.inputs[0], limit_s=limit_s)


def _keras(model: Any) -> Network:
    try:
        layers = [
            KerasLayer(
                kind=type(layer).__name__,
                output_shape=tuple(layer.output.shape[1:]),
                parameters=int(layer.count_params()),
            )
            for layer in model.layers
        ]
        return from_summary(layers)
    except (AttributeError, TypeError, ValueError) as error:
        return Unknown(why=f"The layers of this model could not be read ({type(error).__name__}).")


def _sample(data: Any, limit_s: float) -> Sample:
    """One sample of the first batch; nothing where the data does not come in time."""
    if data is None:
        return Sample(inputs=(), batch=None, sequence=1)
    is_batch = hasattr(data, "shape") or isinstance(data, tuple | Mapping)
    batch = data if is_batch else _in_time(lambda: next(iter(data)), limit_s)
    parts = tuple(batch.values()) if isinstance(batch, Mapping) else batch
    parts = tuple(parts) if isinstance(parts, tuple | list) else (parts,)
    tensors = [part for part in parts if hasattr(part, "shape") and len(part.shape) > 0]
    if not tensors:
        return Sample(inputs=(), batch=None, sequence=1)
    first = tensors[0].shape
    tokens = int(first[1]) if len(first) == 2 and _is_whole(tensors[0]) else 1  # noqa: PLR2004 - batch × tokens
    return Sample(inputs=tuple(one[:1] for one in tensors), batch=int(first[0]), sequence=tokens)


def _is_whole(tensor: Any) -> bool:
    return "int" in str(getattr(tensor, "dtype", ""))


def _in_time(read: Callable[[], T], limit_s: float) -> T | None:
    """What is read, None where it fails or takes too long; a thread that hangs ends with the kernel."""
    found: list[T] = []

    def run() -> None:
        try:
            found.append(read())
        except Exception:  # noqa: BLE001 - it is the user's code that runs
            return

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(limit_s)
    return found[0] if found else None


def _by(at_ms: int, now_ms: int) -> str:
    at, now = (datetime.fromtimestamp(one / 1000) for one in (at_ms, now_ms))
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%a} {at.day} {at:%b} {at:%H:%M}"

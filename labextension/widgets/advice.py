"""``advise(model, data)`` in a cell: plans for the model that this kernel holds.

The module is run once on the meta device, here, in the user's own process and under a limit of time;
what goes to the scheduler are sizes. A module that cannot be read is *unknown*, with the reason.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from gpucommons.labextension.widgets.surroundings import connect
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.describing import of_config, of_keras, of_module
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.plan_words import advice_text

T = TypeVar("T")

#: Reading one batch of the data takes longer only where it does much else.
LIMIT_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One batch of the data, as the model takes it."""

    #: Positional inputs, one sample each.
    inputs: tuple[Any, ...]
    batch: int | None
    #: Tokens of a sample; None where none of its tensors holds them.
    sequence: int | None


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
    model: Any = None,
    data: Any = None,
    *,
    like: str | Sequence[str] = (),
    epochs: int = 1,
    connect_to: Callable[[], SchedulerClient] = connect,
    **options: Any,
) -> Advice:
    """Plans for training ``model`` on ``data``.

    ``model`` is a module of torch (a Hugging Face model is one, too) or a built Keras model; ``data`` a
    loader, or one batch: a tensor, a tuple of tensors, or a mapping of them. In place of a model ``like``
    names jobs that trained it with this batch, if only for minutes. ``options`` are the fields
    of ``POST /v1/advise``: ``batch``, ``steps``, ``sequence``, ``objective``, ``deadline_ms``,
    ``precision``, ``team``, ``pools`` …; what is given wins over what the data says.

    Raises
    ------
    BadRequest
        When neither the data nor an option says how large a batch is, how long it trains, or of how
        many tokens a sample of a transformer is; when a model and jobs are named, or neither.
    """
    if (model is None) != bool(like):
        raise BadRequest('Name either the model or jobs that trained it: advise(like="my-job").')
    sample = _sample(data, LIMIT_S)
    is_keras = hasattr(model, "layers") and hasattr(model, "count_params")
    if like:
        names = [like] if isinstance(like, str) else list(like)
        network: models.NetworkModel = models.UnknownModel(kind="unknown", like=names)
    else:
        network = _described(model, sample, is_keras=is_keras, limit_s=LIMIT_S)
    sequence = options.pop("sequence", None)
    batch = options.pop("batch", None) or sample.batch
    if batch is None:
        raise BadRequest("Say how many samples one optimizer step has: advise(model, batch=256).")
    fields: dict[str, Any] = {
        "network": network,
        "batch": batch,
        "steps": options.pop("steps", None) or _steps(data, epochs, sample.batch, batch),
        "sequence": _sequence(network, sample) if sequence is None else sequence,
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


def _sequence(network: models.NetworkModel, sample: Sample) -> int:
    """Tokens of a sample as the description counts them: other networks count whole samples."""
    if not isinstance(network, models.TransformerModel):
        return 1
    if sample.sequence is None:
        message = (
            "Say how many tokens a sample has: advise(model, batch=64, steps=1000, sequence=1024)."
            " No tensor of the data says it: whole numbers, samples × tokens."
        )
        raise BadRequest(message)
    return sample.sequence


def _described(
    model: Any, sample: Sample, *, is_keras: bool, limit_s: float
) -> models.NetworkModel:
    """The model in numbers."""
    if is_keras:
        return of_keras(model)
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        read = of_config(config.to_dict())
        if not isinstance(read, models.UnknownModel):
            return read
    if not hasattr(model, "named_parameters"):
        why = f"{type(model).__name__} is neither a module of torch nor a Keras model."
        return models.UnknownModel(kind="unknown", why=why)
    if not sample.inputs:
        why = "Without data the layers of this model cannot be counted: advise(model, loader)."
        return models.UnknownModel(kind="unknown", why=why)
    return _traced(model, sample, limit_s)


def _traced(model: Any, sample: Sample, limit_s: float) -> models.NetworkModel:
    """With the first input alone where the model takes no more: loaders give labels, too."""
    found = of_module(model, *sample.inputs, limit_s=limit_s)
    if isinstance(found, models.TracedModel) or len(sample.inputs) == 1:
        return found
    return of_module(model, sample.inputs[0], limit_s=limit_s)


def _sample(data: Any, limit_s: float) -> Sample:
    """One sample of the first batch; nothing where the data does not come in time."""
    if data is None:
        return Sample(inputs=(), batch=None, sequence=None)
    is_batch = hasattr(data, "shape") or isinstance(data, tuple | Mapping)
    batch = data if is_batch else _in_time(lambda: next(iter(data)), limit_s)
    parts = tuple(batch.values()) if isinstance(batch, Mapping) else batch
    parts = tuple(parts) if isinstance(parts, tuple | list) else (parts,)
    tensors = [part for part in parts if hasattr(part, "shape") and len(part.shape) > 0]
    if not tensors:
        return Sample(inputs=(), batch=None, sequence=None)
    return Sample(
        inputs=tuple(one[:1] for one in tensors),
        batch=int(tensors[0].shape[0]),
        sequence=next((int(one.shape[1]) for one in tensors if _holds_tokens(one)), None),
    )


def _holds_tokens(tensor: Any) -> bool:
    """Batch × tokens: collators may put labels, one of each sample, before them."""
    return len(tensor.shape) == 2 and _is_whole(tensor)  # noqa: PLR2004 - see above


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

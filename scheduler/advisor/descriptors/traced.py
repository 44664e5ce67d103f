"""A network from a module of torch, run once on the meta device: no weights, no GPU, no copy.

For clients, in the user's own process: the service never runs a module's code. torch is imported
when a module is there, and then it is.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

from gpucommons.scheduler.advisor.network import Network, Traced, Unknown, refusal

#: A forward pass on the meta device computes nothing; one that takes longer does something else.
LIMIT_S = 20.0


def from_module(module: Any, *inputs: Any, limit_s: float = LIMIT_S) -> Network:
    """A description of one sample's forward and backward pass; the inputs hold one sample.

    A module whose code does not end in time is unknown; its thread is left to end by itself.
    """
    # Imported before the clock runs: the first time takes seconds.
    importlib.import_module("torch.utils.flop_counter")
    found: list[Network] = []
    worker = threading.Thread(target=lambda: found.append(_traced(module, inputs)), daemon=True)
    worker.start()
    worker.join(limit_s)
    if not found:
        return Unknown(why=f"The trace did not end within {limit_s:g} s.")
    refused = refusal(found[0])
    return Unknown(why=refused) if refused else found[0]


def _traced(module: Any, inputs: tuple[Any, ...]) -> Network:
    try:
        return _counted(module, inputs)
    except BaseException as error:  # noqa: BLE001 - the user's code runs; it may also want to leave
        return Unknown(why=f"The trace failed ({_said(error)}).")


def _said(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:200]
    except Exception:  # noqa: BLE001 - its words are the user's code, too
        return name


def _counted(module: Any, inputs: tuple[Any, ...]) -> Network:
    torch = importlib.import_module("torch")
    counter = importlib.import_module("torch.utils.flop_counter")
    named = [*module.named_parameters(), *module.named_buffers()]
    there = {name: one.detach().to("meta") for name, one in named}
    for name, one in module.named_parameters():
        there[name].requires_grad_(one.is_floating_point())
    own = {id(one) for one in there.values()}
    kept: dict[int, tuple[Any, int]] = {}

    def keep(tensor: Any) -> Any:
        base = tensor if tensor._base is None else tensor._base
        if id(base) not in own:
            # The tensor is held as well, so that no other takes its id.
            kept[id(base)] = (base, base.numel() * base.element_size())
        return tensor

    asked = [one.to("meta") if isinstance(one, torch.Tensor) else one for one in inputs]
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        counter.FlopCounterMode(display=False) as flops,
    ):
        torch.func.functional_call(module, there, tuple(asked))
    parts = [one for one in module.modules() if not list(one.children())]
    sizes = [sum(weight.numel() for weight in one.parameters(recurse=False)) for one in parts]
    return Traced(
        parameters=sum(one.numel() for one in module.parameters()),
        forward_flops=float(flops.get_total_flops()),
        activation_bytes=float(sum(size for _, size in kept.values())),
        largest_layer_parameters=max(sizes, default=0),
        modules=len(parts),
    )

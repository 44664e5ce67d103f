"""A provider: programs that know nothing of GPU Commons find the name of their slice."""

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.providers import Capability, Grant, Held, Injection, NodeTraits
from gpucommons.gpu.providers.base import NothingOutside


class LabelsProvider(NothingOutside):
    name = "labels"

    def probe(self, traits: NodeTraits) -> Capability:
        return Capability(usable=True, reason="Only a variable; nothing is enforced.")

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        return None  # others make the slice

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        return Injection(env={"MLFLOW_TAGS_SLICE": str(held.slice.slice_id)})

"""Which sizes people choose from, so that no sentence names one that no form has."""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU

_SHARES = (250, 500)
#: Beyond a node of this many GPUs, powers of two are choice enough; up to there three are one too.
_FEW, _ALL, _MANY = 4, (1, 2, 3, 4), (1, 2, 4, 8)


def training_sizes(gpus: int) -> tuple[int, ...]:
    """GPUs of one worker, in milli-GPU, where the largest node has so many; 0 is processor only."""
    whole = _ALL if gpus <= _FEW else _MANY
    return (
        0,
        *(share for share in _SHARES if gpus),
        *(count * WHOLE_MILLI_GPU for count in whole if count <= gpus),
    )

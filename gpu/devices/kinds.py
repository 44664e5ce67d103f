"""Short names of GPU models, as pools and quotas use them: ``A100-40`` is model and GiB.

The memory is part of the name because two cards of one model with different memory are not the
same choice.
"""

from __future__ import annotations

import re

_MIB_PER_GIB = 1024
#: Words of NVML's product names that do not tell one model from another.
_NOISE = re.compile(
    r"\b(NVIDIA|Tesla|GeForce|Quadro|Graphics|Device|PCIe?|SXM\d?|NVL|HBM\d\w?|MIG|\d+GB)\b",
    re.IGNORECASE,
)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9.]*(?:-[A-Za-z0-9.]+)*-(?P<gib>[1-9][0-9]{0,3})")
_ADVERTISED_GIB = re.compile(r"(?<![0-9])([1-9][0-9]{0,3})GB\b")


def kind_of(product_name: str, memory_mib: int) -> str:
    """Kind of a card from NVML's product name, for example ``A100-40``.

    The number is the advertised one where the name carries it (``A100-SXM4-40GB``), else what
    the driver reports, rounded to GiB.
    """
    advertised = _ADVERTISED_GIB.search(product_name)
    gib = int(advertised[1]) if advertised else max(1, round(memory_mib / _MIB_PER_GIB))
    words = re.split(r"[^A-Za-z0-9.]+", _NOISE.sub(" ", product_name.replace("-", " ")))
    model = "-".join(word for word in (word.strip(".") for word in words) if word) or "GPU"
    return f"{model}-{gib}"


def memory_mib_of(kind: str) -> int:
    """Memory of a simulated card of this kind: the number at the end, in GiB.

    Raises
    ------
    ValueError
        When the kind does not end in its memory.
    """
    match = _KIND.fullmatch(kind)
    if match is None:
        message = f"{kind!r} is no kind of GPU: write model and GiB, for example A100-40."
        raise ValueError(message)
    return int(match["gib"]) * _MIB_PER_GIB

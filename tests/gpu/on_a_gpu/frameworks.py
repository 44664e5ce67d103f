"""Inside a slice: one framework fills it and is refused. ``frameworks.py NAME``; prints JSON."""

# ruff: noqa: PLC0415 - each program needs one framework, and few machines have all

import json
import os
import sys
import time

MIB = 1 << 20
STEP_MIB = 256


def fill(allocate, is_refusal):
    """Allocate until refused; the MiB that were had."""
    kept, held = [], 0
    while True:
        try:
            kept.append(allocate(STEP_MIB * MIB))
        except Exception as error:
            if not is_refusal(error):
                raise
            return held
        held += STEP_MIB


def torch_fill(conf=""):
    if conf:
        os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
    else:
        os.environ.pop("PYTORCH_ALLOC_CONF", None)
    import torch

    free, total = torch.cuda.mem_get_info()
    held = fill(
        lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
        lambda error: isinstance(error, torch.OutOfMemoryError),
    )
    return {
        "free_mib": free // MIB,
        "total_mib": total // MIB,
        "total_memory_mib": torch.cuda.get_device_properties(0).total_memory // MIB,
        "allocated_mib": held,
    }


def torch_graph():
    import torch

    x = torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = x @ x
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x @ x
    graph.replay()
    torch.cuda.synchronize()
    return {"replayed": bool(torch.isfinite(y).all())}


def torch_matmul():
    import torch

    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        x @ x
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(100):
        x @ x
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    return {"tflops": 100 * 2 * 8192**3 / seconds / 1e12}


def jax_fill():
    import jax

    device = jax.devices("gpu")[0]
    held = fill(
        lambda size: jax.device_put(
            jax.numpy.zeros(size, dtype="uint8"), device
        ).block_until_ready(),
        lambda error: "RESOURCE_EXHAUSTED" in str(error),
    )
    return {"allocated_mib": held, "limit": device.memory_stats().get("bytes_limit", 0) // MIB}


def cupy_fill():
    import cupy

    held = fill(
        lambda size: cupy.empty(size, dtype="uint8"),
        lambda error: isinstance(error, cupy.cuda.memory.OutOfMemoryError),
    )
    return {"allocated_mib": held, "total_mib": cupy.cuda.runtime.memGetInfo()[1] // MIB}


def triton_add():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, y, out, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < n
        tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    x, y = (torch.ones(4096, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    add[(4,)](x, y, out, 4096, block=1024)
    return {"right": bool((out == 2).all())}


PROGRAMS = {
    "torch": torch_fill,
    "torch-expandable": lambda: torch_fill("expandable_segments:True"),
    "torch-async": lambda: torch_fill("backend:cudaMallocAsync"),
    "torch-graph": torch_graph,
    "torch-matmul": torch_matmul,
    "jax": jax_fill,
    "cupy": cupy_fill,
    "triton": triton_add,
}

sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]]()) + "\n")

"""Logs of programs that train nothing: made up by a seeded generator, in the style of the real ones.

They are full of what a careless reader takes for a curve: counters, ratios, percentages, key=value
pairs, the words "step", "epoch", "loss" and "accuracy" in another sense.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

WORDS = [
    "alpha",
    "beta",
    "cache",
    "client",
    "disk",
    "edge",
    "file",
    "graph",
    "host",
    "index",
    "job",
    "kernel",
    "layer",
    "model",
    "node",
]


def _stamp(rng: random.Random) -> str:
    return (
        f"2026-11-{rng.randint(1, 28):02} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
        f":{rng.randint(0, 59):02},{rng.randint(0, 999):03}"
    )


def _version(rng: random.Random) -> str:
    return f"{rng.randint(0, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}"


def apt(rng: random.Random) -> str:
    word = rng.choice(WORDS)
    return rng.choice(
        [
            f"Get:{rng.randint(1, 90)} http://deb.example.org/debian bookworm/main amd64 lib{word}"
            f" amd64 {_version(rng)}-1 [{rng.randint(1, 900)} kB]",
            f"Unpacking lib{word} ({_version(rng)}-1) ...",
            f"Progress: [{rng.randint(0, 100):3}%] [{'#' * rng.randint(0, 20)}]",
            f"(Reading database ... {rng.randint(1, 99999)} files and directories installed.)",
            f"{rng.randint(0, 9)} upgraded, {rng.randint(0, 99)} newly installed, 0 to remove",
        ]
    )


def pip(rng: random.Random) -> str:
    word = rng.choice(WORDS)
    done, whole = sorted((rng.randint(1, 900), rng.randint(1, 900)))
    return rng.choice(
        [
            f"Collecting {word}=={_version(rng)}",
            f"  Downloading {word}-{_version(rng)}-py3-none-any.whl ({whole} kB)",
            f"     ━━━━━━━━━━━━━━━━━━━━ {done}/{whole} kB {rng.randint(1, 99)}.{rng.randint(0, 9)} MB/s eta 0:00:00",
            f"Requirement already satisfied: torch-loss=={_version(rng)} in ./lib (from {word})",
            f"Successfully installed accuracy-{_version(rng)} {word}-{_version(rng)}",
        ]
    )


def docker(rng: random.Random) -> str:
    step = rng.randint(1, 20)
    return rng.choice(
        [
            f"Step {step}/20 : RUN pip install {rng.choice(WORDS)}",
            f" ---> {rng.getrandbits(48):012x}",
            f"#{step} [{step}/20] COPY {rng.choice(WORDS)} /app",
            f"#{step} DONE {rng.randint(0, 30)}.{rng.randint(0, 9)}s",
            f"#{step} sha256:{rng.getrandbits(64):016x} {rng.randint(1, 9)}.1MB / 10.0MB 0.{rng.randint(1, 9)}s",
        ]
    )


def build(rng: random.Random) -> str:
    done = rng.randint(1, 400)
    word = rng.choice(WORDS)
    return rng.choice(
        [
            f"[{done}/400] Building CXX object src/CMakeFiles/{word}.dir/loss.cpp.o",
            f"[{rng.randint(0, 100):3}%] Linking CXX static library lib{word}.a",
            f"gcc -O2 -DEPOCH={rng.randint(0, 9)} -Iinclude -c {word}.c -o {word}.o",
            f"src/accuracy.c:{done}:{rng.randint(1, 80)}: warning: unused variable 'step' [-Wunused]",
            f"ld: step {done} of relocation, 0x{rng.getrandbits(32):08x}",
        ]
    )


def http(rng: random.Random) -> str:
    return (
        f'10.0.0.{rng.randint(1, 254)} - - [{rng.randint(1, 28)}/Nov/2026:10:00:00 +0000] "GET'
        f" /api/{rng.choice(WORDS)}?epoch={rng.randint(1, 99)}&loss={rng.random():.3f}&step={rng.randint(1, 99)}"
        f' HTTP/1.1" {rng.choice([200, 304, 404])} {rng.randint(10, 99999)}'
    )


def service(rng: random.Random) -> str:
    level = rng.choice(["INFO", "WARN", "DEBUG"])
    said = rng.choice(
        [
            f"request took {rng.randint(1, 900)} ms, status={rng.choice([200, 500])}",
            f"step {rng.randint(1, 9)} of rollout: {rng.randint(1, 9)} pods ready",
            f"leader epoch {rng.randint(1, 99)} for partition {rng.choice(WORDS)}-{rng.randint(0, 9)}",
            f"data loss: {rng.randint(0, 9)} records since offset {rng.randint(1, 9999)}",
            f"iteration={rng.randint(1, 99)} queue={rng.randint(0, 99)} latency={rng.random():.3f}",
            f"connection loss: {rng.randint(1, 9)} retries",
            f"gc pause {rng.random():.4f} s, heap {rng.randint(1, 99)}%",
            f"retry {rng.randint(1, 5)}/5 for {rng.choice(WORDS)}: score={rng.random():.2f}",
        ]
    )
    return f"{_stamp(rng)} {level} [{rng.choice(WORDS)}] {said}"


def network(rng: random.Random) -> str:
    return rng.choice(
        [
            f"64 bytes from 10.0.0.1: icmp_seq={rng.randint(1, 99)} ttl=64 time={rng.random():.3f} ms",
            f"{rng.randint(1, 9)} packets transmitted, {rng.randint(0, 9)} received, {rng.randint(0, 99)}% packet loss, time 1001ms",
            f"[ ID] {rng.randint(0, 9)}.00-{rng.randint(1, 9)}.00 sec 1.1 GBytes loss {rng.randint(0, 9)}/{rng.randint(100, 999)} (0.1%)",
            f"ntpd: clock step {rng.random():.6f} s, accuracy {rng.random():.3f} ms",
            f"packet loss: {rng.random():.2f}%",
        ]
    )


def tests(rng: random.Random) -> str:
    return rng.choice(
        [
            f"tests/test_{rng.choice(WORDS)}.py::test_loss_{rng.randint(1, 9)} PASSED [{rng.randint(0, 100):3}%]",
            f"tests/test_accuracy.py ......F...  [{rng.randint(0, 100):3}%]",
            f"E   assert {rng.random():.2f} == {rng.random():.2f}",
            f"{rng.randint(1, 99)} passed, {rng.randint(0, 9)} failed in {rng.random() * 60:.2f}s",
        ]
    )


def copying(rng: random.Random) -> str:
    done = rng.randint(0, 1000)
    bar = "#" * (done // 50)
    return rng.choice(
        [
            f"\rDownloading data: {done // 10:3}%|{bar:<20}| {done}/1000 [00:{done % 60:02}<00:09, {rng.randint(1, 99)}.1MB/s]",
            f"\rMap: {done // 10:3}%|{bar:<20}| {done}/1000 [00:01<00:01, 999.1 examples/s]",
            f"{rng.choice(WORDS)}.tar.gz  {rng.randint(1, 99)}%  {rng.randint(1, 900)}KB  1.2MB/s   00:0{rng.randint(0, 9)}",
            f"sent {rng.randint(1, 9999)} bytes  received {rng.randint(1, 99)} bytes  total size is {rng.randint(1, 9999)}",
            f"Loading checkpoint shards: {done // 10}%|{bar:<20}| {rng.randint(0, 3)}/4 [00:01<00:01,  1.2it/s]",
        ]
    )


def table(rng: random.Random) -> str:
    return rng.choice(
        [
            "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND",
            f"{rng.randint(1, 99999):5} root      20   0  {rng.randint(1, 99999)}  {rng.randint(1, 999)}  12 S  {rng.random() * 100:.1f}  0.1  0:00.{rng.randint(10, 99)} {rng.choice(WORDS)}",
            f"{rng.randint(0, 9)}  {rng.random():.3f}  {rng.random():.3f}  {rng.choice(WORDS)}",
            f"epoch_ms={rng.randint(10**12, 2 * 10**12)} host={rng.choice(WORDS)} value={rng.random():.4f}",
            f"| {rng.choice(WORDS):<10} | {rng.random():.3f} | {rng.randint(1, 99)} |",
        ]
    )


def talk(rng: random.Random) -> str:
    return rng.choice(
        [
            "The accuracy of the clock is better than its makers said.",
            f"profit and loss: see page {rng.randint(1, 99)}",
            f"Epochs are {rng.randint(1, 9)} s long; nothing is lost at a step.",
            f"Chapter {rng.randint(1, 99)}: a loss of {rng.randint(1, 99)} days",
            f"weight loss: {rng.randint(1, 9)} kg",
            "--help: --loss NAME  which loss to use; --epochs N  how many (default: 10)",
            f"usage: train [--epochs EPOCHS] [--lr LR], version {_version(rng)}",
        ]
    )


KINDS: tuple[Callable[[random.Random], str], ...] = (
    apt, pip, docker, build, http, service, network, tests, copying, table, talk,
)  # fmt: skip


def ordinary_logs(count: int) -> Iterator[tuple[str, list[str]]]:
    """So many logs of 120 lines each: of one kind, or of all mixed."""
    for seed in range(count):
        rng = random.Random(seed)  # noqa: S311 - no secret, a repeatable log
        kind = KINDS[seed % (len(KINDS) + 1)] if seed % (len(KINDS) + 1) < len(KINDS) else None
        make = kind or (lambda rng: rng.choice(KINDS)(rng))
        yield getattr(kind, "__name__", "mixed"), [make(rng) for _ in range(120)]

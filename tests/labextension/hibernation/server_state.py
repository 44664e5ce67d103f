"""What a server, its folders, its notes and its first message say of kernels."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
from kernel_server import TOKEN, KernelServer

from gpucommons.labextension.hibernation.records import Record


def opened(server: KernelServer, name: str = "a.ipynb") -> tuple[str, str]:
    session = server.open_notebook(name)
    return session["kernel"]["id"], session["id"]


def state(server: KernelServer, kernel_id: str) -> str:
    told: str = server.ask("GET", f"api/kernels/{kernel_id}")["execution_state"]
    return told


def kernels_of(server: KernelServer) -> set[str]:
    return {each["id"] for each in server.ask("GET", "api/kernels")}


def sessions(server: KernelServer) -> dict[str, str]:
    """Kernels by session."""
    return {each["id"]: each["kernel"]["id"] for each in server.ask("GET", "api/sessions")}


def stop_while_a_page_asks(server: KernelServer) -> list[set[str]]:
    """The kernels of each answer that an open connection gets from before the stop to its end."""
    told: list[set[str]] = []
    has_begun = Event()
    url = f"http://127.0.0.1:{server.port}/api/sessions"

    def ask() -> None:
        headers = {"Authorization": f"token {TOKEN}"}
        with httpx.Client(headers=headers, timeout=60, trust_env=False) as page:
            while True:
                try:
                    answer = page.get(url)
                except httpx.HTTPError:
                    return
                if answer.is_success:
                    told.append({each["kernel"]["id"] for each in answer.json()})
                has_begun.set()

    with ThreadPoolExecutor(1) as pages:
        asking = pages.submit(ask)
        assert has_begun.wait(60)
        server.stop()
        asking.result()
    return told


def kernel_folder(server: KernelServer, kernel_id: str) -> Path:
    return next((server.home / "state").rglob(f"kernels/{kernel_id}"))


def record(server: KernelServer, kernel_id: str) -> dict[str, Any]:
    file = kernel_folder(server, kernel_id) / "record.json"
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def make_old(server: KernelServer, kernel_id: str) -> None:
    """As if it had been saved a month ago."""
    folder = kernel_folder(server, kernel_id)
    for name, moment in (("record.json", "noted_ms"), ("tree/image/image.json", "made_ms")):
        written = json.loads((folder / name).read_text())
        then = {moment: written[moment] - 30 * 24 * 3600 * 1000}
        (folder / name).write_text(json.dumps(written | then))


def kept(server: KernelServer) -> dict[str, dict[str, Any]]:
    file = next((server.home / "state").rglob("kept.json"))
    return {each["id"]: each for each in json.loads(file.read_text())["kernels"]}


def lost(server: KernelServer) -> dict[str, dict[str, Any]]:
    return {each["kernel_id"]: each for each in server.greeting("kernels")["lost"]}


def record_of(kernel_id: str, noted_ms: int = 1, kept_days: int | None = None) -> Record:
    """What is written down of a kernel that is kept."""
    return Record(
        kernel_id=kernel_id,
        kernel_name="python3",
        cwd=None,
        connection={},
        sessions=[],
        execution_state="idle",
        last_activity="2026-11-24T10:00:00+00:00",
        kernel_info=None,
        session_key=None,
        noted_ms=noted_ms,
        kept_days=kept_days,
    )

"""The honesty meter: what keeps the slice apart, who else is there, what the watchdog says."""

from __future__ import annotations

import re
import sys

import pytest
from playwright.sync_api import expect
from ui.fake_server.lab_server import FAKE, LabServer
from ui.panel_page import Open, now_ms, picture, section, usage

sys.path.insert(0, str(FAKE))
import scene

pytestmark = pytest.mark.ui

#: What every isolation mode says of itself.
MODES = {
    "hardware": "Isolation hardware: the hardware keeps your memory apart",
    "kernel": "Isolation kernel: the driver stops every slice at its memory; compute is shared",
    "driver": "Isolation driver: memory limited for each process; compute is shared",
    "cooperative": "Isolation cooperative: memory limited for programs that cooperate;"
    " compute is shared",
    "watched": "Isolation watched: who stays over their memory is stopped; compute is shared",
    "none": "Isolation none: nothing limits memory; compute is shared",
}


def test_the_tile_names_what_is_in_force_and_not_what_was_promised(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    tile = section(page, "My GPU")
    for number, (mode, said) in enumerate(MODES.items(), start=1):
        told = scene.sample(now_ms() + number * 1000, 50)
        lab.send(usage(told | {"isolation": mode, "contention": "high"}))

        expect(tile).to_contain_text(said)
        expect(tile).to_contain_text("Neighbours: high use, you may be slower")
        picture(tile, f"my-gpu-{mode}")


def test_a_warning_of_the_watchdog_has_its_numbers_and_a_countdown(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    warning = "Your slice uses 25.0 of 19.4 GiB. Free memory now, or the process is stopped."
    at_ms = now_ms() + 1000
    over = scene.sample(at_ms, 50, used_mib=25_600)
    lab.send(usage(over | {"notice": warning, "stops_ms": at_ms + 30_000}))

    tile = section(page, "My GPU")
    expect(tile.get_by_role("status")).to_contain_text(warning)
    expect(tile.get_by_role("status")).to_have_text(re.compile(r"In \d+ s a process is stopped\."))


def test_parked_by_a_press_it_says_so_everywhere_until_its_gpu_is_back(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    tile, status = section(page, "My GPU"), page.locator(".gc-Status-item")
    lab.send({"type": "lease", "lease": scene.lease(idle=scene.idle(can_park=True))})

    tile.get_by_role("button", name="Park").click()

    expect(tile).to_contain_text("Being parked: its GPU memory goes to the host.")
    parked = {"slice": None, "idle": None, "parked_ms": now_ms()}
    lab.send({"type": "lease", "lease": scene.lease(state="parked", **parked)})
    # Its agent keeps the place of the slice, and counts on.
    lab.send(usage(scene.sample(now_ms(), 0, used_mib=0)))
    expect(tile).to_contain_text("Parked, ½ GPU")
    expect(tile).to_contain_text("Run a cell to have the GPU back.")
    expect(status).to_have_text("Parked · simulated")
    in_line = {"position": 1, "requested_ms": now_ms()}
    lab.send({"type": "lease", "lease": scene.lease(state="waiting", **parked, **in_line)})
    expect(tile).to_contain_text("Parked: waits for ½ GPU")
    picture(page, "panel-parked-waits")

    lab.send({"type": "lease", "lease": scene.lease(idle=scene.idle(can_park=True))})
    lab.send(usage(scene.sample(now_ms() + 1000, 74)))
    expect(status).to_have_text("GPU ½ 12.6/19.4 GiB · simulated")
    expect(tile.get_by_role("button", name="Park")).to_be_visible()

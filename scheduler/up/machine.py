"""One run of ``gpucommons up``: prepare, start in order, stay, stop in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.hibernation.criu import find_criu
from gpucommons.scheduler.models import ConfigModel
from gpucommons.scheduler.up import part_logs
from gpucommons.scheduler.up.configuration import (
    config_in_force,
    find_devices,
    make_config,
    read_config,
)
from gpucommons.scheduler.up.hub_control import HubControl
from gpucommons.scheduler.up.hub_files import admitted, teams_of, write_facts, write_hub_files
from gpucommons.scheduler.up.parts import (
    Machine,
    agent_part,
    clean_env,
    named_criu,
    other_parts,
)
from gpucommons.scheduler.up.proxy import find_proxy
from gpucommons.scheduler.up.screen import STARTS, Summary, goodbye_text, welcome_text
from gpucommons.scheduler.up.settings import Settings
from gpucommons.scheduler.up.state_folder import (
    StateFolder,
    check_port_free,
    choose_ports,
    lock,
    prepare,
    read_pids,
    write_pids,
)
from gpucommons.scheduler.up.stop_jobs import end_jobs
from gpucommons.scheduler.up.supervision import Child, end_leftovers

_HUB_STOPS_WITHIN_S = 60.0


def run_machine(settings: Settings) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code.

    Raises
    ------
    RuntimeError
        When the folder or a port is taken, or a part does not start.
    """
    if settings.config:
        # A mistake in the file is said before anything is touched.
        read_config(settings.config)
    folder = prepare(settings.state, open_to_users=not settings.shared_account)
    held = lock(folder.root)
    try:
        ended = end_leftovers(list(read_pids(folder.root)))
        if ended:
            _say(f"Ended what an earlier start had left running: {', '.join(ended)}.")
        return asyncio.run(_Run(settings, folder).until_stopped())
    finally:
        os.close(held)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What is known once the agent has told the devices."""

    machine: Machine
    config: ConfigModel
    devices: tuple[Device, ...]
    #: The scheduler may have teams of its own, whatever stands in the file.
    started_before: bool


class _Run:
    def __init__(self, settings: Settings, folder: StateFolder) -> None:
        self._settings = settings
        self._folder = folder
        self._children: list[Child] = []
        self._stop = asyncio.Event()
        self._ports: dict[str, int] = {}
        #: The event loop itself keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    async def until_stopped(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        starting = asyncio.create_task(self._start_all())
        stopping = asyncio.create_task(self._stop.wait())
        logs = asyncio.create_task(self._keep_logs_short())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await stopping
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            await self._stop_all()
            logs.cancel()
            await asyncio.gather(logs, return_exceptions=True)
        return 0

    async def _start_all(self) -> None:
        # The ports first: a taken one is said before anything runs.
        if self._settings.hub:
            check_port_free(self._settings.port, "asked for with --port")
        self._ports = choose_ports(self._folder.root)
        env = clean_env(os.environ)
        _say(STARTS["agent"])
        await self._start(Child(agent_part(self._settings, self._folder, env), on_start=self._note))
        plan = await asyncio.to_thread(self._plan, env)
        for part in other_parts(plan.machine):
            _say(STARTS[part.name])
            await self._start(Child(part, on_start=self._note))
            if part.name == "scheduler" and plan.started_before:
                plan = await asyncio.to_thread(self._with_teams_in_force, plan)
        _say(self._welcome(plan))

    async def _keep_logs_short(self) -> None:
        while True:
            await asyncio.sleep(part_logs.EVERY_S)
            logs = [child.part.log for child in self._children]
            await asyncio.to_thread(part_logs.keep_short, logs)

    def _plan(self, env: dict[str, str]) -> _Plan:
        settings, folder = self._settings, self._folder
        devices = find_devices(folder)
        path: Path = settings.config or make_config(folder, settings.account, devices)
        config = read_config(path)
        machine = Machine(
            settings=settings,
            folder=folder,
            ports=self._ports,
            proxy_command=find_proxy(folder.root) if settings.hub else (),
            config=path,
            base_env=env,
        )
        self._tell_hub(machine, config)
        return _Plan(
            machine=machine,
            config=config,
            devices=devices,
            started_before=folder.database.exists(),
        )

    def _tell_hub(self, machine: Machine, config: ConfigModel) -> None:
        if self._settings.hub:
            write_hub_files(machine, config)
        elif self._settings.beside:
            write_facts(machine, config)

    def _with_teams_in_force(self, plan: _Plan) -> _Plan:
        """Before the hub starts: teams were changed since the file was read, and their members log in."""
        config = config_in_force(self._folder.root / "api.sock", plan.config)
        self._tell_hub(plan.machine, config)
        return replace(plan, config=config)

    async def _start(self, child: Child) -> None:
        self._children.append(child)
        await child.start()

    def _note(self, started: Child) -> None:
        if started.part.name == "proxy" and started.restarts:
            # A new proxy knows no way to any notebook.
            task = asyncio.ensure_future(self._restore_routes(started))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        facts = {child.part.name: child.facts() for child in self._children}
        write_pids(self._folder.root, {name: one for name, one in facts.items() if one})

    def _welcome(self, plan: _Plan) -> str:
        teams = {team.name: sorted({*team.members, *team.leads}) for team in plan.config.teams}
        summary = Summary(
            settings=self._settings,
            folder=self._folder,
            users=tuple(admitted(self._settings, teams_of(plan.config))),
            teams=teams,
            devices=plan.devices,
            config=plan.machine.config,
            password=self._folder.password.read_text().strip(),
            lacks_criu=sys.platform.startswith("linux")
            and find_criu(clean_env(os.environ)) is None,
            named_criu=named_criu(os.environ),
            started_before=plan.started_before,
        )
        return welcome_text(summary)

    async def _stop_all(self) -> None:
        if not self._children:
            return
        _say(goodbye_text(self._settings))
        for task in self._tasks:
            task.cancel()
        names = {child.part.name: child for child in self._children}
        if "hub" in names:
            names["hub"].stop_restarting()
            if await self._hub_control().end_notebooks():
                await names["hub"].wait_ended(_HUB_STOPS_WITHIN_S)
        if self._settings.stop_jobs:
            text = await asyncio.to_thread(end_jobs, self._folder.root / "api.sock")
            _say(text)
        for child in reversed(self._children):
            await child.stop()
        write_pids(self._folder.root, {})

    async def _restore_routes(self, proxy: Child) -> None:
        await proxy.wait_ready()
        if not await self._hub_control().restore_routes():
            _say("The hub did not tell the new proxy its routes: restart it.")

    def _hub_control(self) -> HubControl:
        url = f"http://127.0.0.1:{self._ports['hub']}/hub/api"
        return HubControl(api_url=url, token=self._folder.token("up"))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

"""Notebook servers as processes of this machine, each on its slice of a GPU.

As root, every user is a real operating-system user. Without root (or where an admin says so) all of
them share one account, which isolates nobody and is said on every screen.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
from jupyterhub.spawner import LocalProcessSpawner
from tornado import web
from traitlets import Bool, Unicode, default

from gpucommons.gpu.account_names import USERNAME, account_name
from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.errors import AgentUnavailable, GpuError
from gpucommons.gpu.hibernation import criu
from gpucommons.gpu.hibernation.above_server import orders
from gpucommons.gpu.hibernation.above_server.standing import Above
from gpucommons.gpu.linux.control_groups import enter
from gpucommons.gpu.providers import Injection
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import SliceView
from gpucommons.spawner import above_server, server_output
from gpucommons.spawner.form.cpu_words import cpu_and_memory
from gpucommons.spawner.form.refusal import refusal
from gpucommons.spawner.kernel_trial import (
    TRIALS,
    Account,
    criu_of_this_account,
    environ_of_trial,
)
from gpucommons.spawner.lease import LeaseMixin
from gpucommons.spawner.server_environment import gpu_slice

#: Accounts below this are the system's own; a notebook never runs as one of them.
LEAST_USER_ID = 1000
_PR_SET_NO_NEW_PRIVS = 38
#: "0" in a server's environment: no kernel is saved.
_KEEPS_KERNELS = "GPUCOMMONS_HIBERNATE_KERNELS"
_BYTES_PER_GIB = 2**30
#: Of a server's name in the name of its log; a file's name has 255 bytes.
_MOST_NAME = 200


class GpuLocalSpawner(LeaseMixin, LocalProcessSpawner):  # type: ignore[misc] # jupyterhub has no types
    """Local notebook servers with a slice of a GPU."""

    home_dir_template = Unicode(
        help="""Home of a user where all share one account; ``{username}`` is the hub's name.

        Not used for real operating-system users, who have a home.
        """
    ).tag(config=True)

    account_template = Unicode(
        USERNAME,
        help="""What a user's own account is called; ``{username}`` is the hub's name.

        As The Littlest JupyterHub has it: ``jupyter-{username}``, long names shortened as it does.
        """,
    ).tag(config=True)

    kernels_by_root = Bool(
        None,
        allow_none=True,
        help="""Where users may make no user namespaces, root's program above each server saves kernels (a hub
        of root's, users' own accounts). None: where root may make such a namespace. True: also where it may
        not, and a determined user may get CAP_CHECKPOINT_RESTORE by it, as themselves. False: nowhere.
        """,
    ).tag(config=True)

    #: Of the start that is under way.
    _above: Above | None = None

    #: Declared by the hub's spawner; named here for the type checker.
    cmd: list[str]
    popen_kwargs: dict[str, Any]

    @default("home_dir_template")
    def _default_home_dir_template(self) -> str:
        return str(Path.home() / "gpucommons" / "{username}")

    @default("shared_account")
    def _default_shared_account(self) -> bool:
        return os.geteuid() != 0

    @default("environments")
    def _default_environments(self) -> dict[str, str]:
        return {f"Python {platform.python_version()}": sys.executable}

    def own_cpu_text(self) -> str:
        """See :class:`StartOptions`."""
        gib = psutil.virtual_memory().total / _BYTES_PER_GIB
        return gettext("%(what)s, shared", what=cpu_and_memory(os.cpu_count() or 0, gib))

    # A stopped server's GPU is free again within 15 s. JupyterHub waits up to a minute for a server
    # that has ended its kernels but hangs at its interpreter's exit.
    @default("interrupt_timeout")
    def _default_interrupt_timeout(self) -> int:
        return 8

    def stop_seconds(self) -> int:
        """See :class:`LeaseMixin`. A second signal, SIGTERM, would cut short what the first began."""
        return int(self.interrupt_timeout)

    @default("term_timeout")
    def _default_term_timeout(self) -> int:
        return 3

    @default("cmd")
    def _default_cmd(self) -> list[str]:
        # The PATH of the hub says nothing about where jupyterhub-singleuser of this version is.
        return [sys.executable, "-m", "jupyterhub.singleuser"]

    @property
    def account(self) -> str:
        """The account that this user's servers run as, where not all share one."""
        return account_name(self.account_template, self.user.name)

    @property
    def home_dir(self) -> Path:
        """The user's home where all share one account."""
        safe_name = quote(self.user.name, safe=" @+")
        if safe_name.strip(".") == "":
            message = f"{self.user.name!r} cannot be the name of a folder."
            raise refusal(message, reason="bad_name", status=400)
        return Path(self.home_dir_template.format(username=safe_name))

    async def start(self) -> tuple[str, int]:
        """Start the server from the interpreter of the chosen environment."""
        chosen = self.notebook_options().environment
        configured, keywords = list(self.cmd), dict(self.popen_kwargs)
        stands_above = self._may_stand_above()
        if chosen:
            self.cmd = [self.environments[chosen], "-m", "jupyterhub.singleuser"]
        output = await self._open_output()
        ours = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        self.popen_kwargs = {**ours, **keywords}
        self._above = await self._program_above() if stands_above else None
        started = False
        try:
            where: tuple[str, int] = await super().start()
            started = True
        except subprocess.SubprocessError as error:
            # All that a child can say of what happened before it became the server.
            message = (
                "The server could not be put under the limits of its slice or into its account "
                f"({error}). Nothing was started: tell your admin."
            )
            raise refusal(message, reason="limit_not_in_force", status=503) from error
        finally:
            os.close(output)
            self.cmd, self.popen_kwargs = configured, keywords
            if self._above is not None:
                (self._above.let_go if started else self._above.discard)()
                self._above = None
        return where

    def _may_stand_above(self) -> bool:
        """Whether root's program is allowed here. Who starts servers in another way may confine them."""
        is_ours = list(self.cmd) == self._default_cmd() and not self.shell_cmd
        allowed = self.kernels_by_root is not False and self.environment.get(_KEEPS_KERNELS) != "0"
        return bool(is_ours and allowed and not self.shared_account)

    async def _program_above(self) -> Above | None:
        """Root's program, where kernels are kept by it; a server starts without it, too."""
        try:
            account, home = self._account_of_trial(), Path(_account_of(self.account).pw_dir)
            group = None if self._prepared is None else self._prepared.cgroup
            by_root = above_server.trials_of(self.kernels_by_root)
            return await above_server.above(account, home, by_root=by_root, group=group)
        except OSError as error:
            self.log.warning("gpucommons: kernels are not saved by root's program: %s", error)
            return None

    async def _open_output(self) -> int:
        """Where the server is to print: into a file of its user's, by a process of its user's."""
        name = quote(self.name, safe=" ")[:_MOST_NAME]
        log = f"notebook-{name}.log" if name else "notebook.log"
        words = ["-I", "-S", server_output.__file__, *self._output_account(), "--", log]
        read_end, write_end = os.pipe()
        try:
            keeper = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
            # It goes on in the background; nothing of the server's start waits for its files.
            if await keeper.wait() != 0:
                self.log.warning("gpucommons: the log of %s's server is not kept", self.user.name)
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        return write_end

    def _output_account(self) -> list[str]:
        """Who keeps the log, and below which home."""
        if self.shared_account:
            return ["--home", str(self._made_home())]
        account = _account_of(self.account)
        home = ["--home", account.pw_dir]
        if os.geteuid() != 0:
            return home
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
        return [
            *home,
            *("--uid", str(account.pw_uid), "--gid", str(account.pw_gid)),
            *("--groups", ",".join(map(str, groups))),
        ]

    def _made_home(self) -> Path:
        home = self.home_dir
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return home

    async def prepare_slice(self, held: SliceView) -> Injection | None:
        """Let the agent of this machine make the slice, and refuse the start if it cannot."""
        if not self.agent_dir:
            if held.isolation != "none":
                raise self._no_limit("This hub does not know the node agent: set `agent_dir`.")
            return None
        uid = None if self.shared_account else _uid_of(self.account)
        agent = AgentClient(Path(self.agent_dir) / "control.sock")
        try:
            prepared = await asyncio.to_thread(agent.prepare, gpu_slice(held), uid=uid)
        except AgentUnavailable as error:
            if held.isolation == "none":
                self.log.warning("gpucommons: slice %s is not watched: %s", held.slice_id, error)
                return None
            raise self._no_limit(str(error)) from error
        except GpuError as error:
            raise self._no_limit(str(error)) from error
        return prepared.injection

    def _no_limit(self, why: str) -> Exception:
        message = (
            f"The limit of your GPU slice is not in force, so nothing was started on it. {why}"
        )
        return refusal(message, reason="limit_not_in_force", status=503)

    async def stop(self, now: bool = False) -> None:
        """See :class:`LeaseMixin`; with root's program, whatever its server did."""
        await super().stop(now)
        await above_server.end_left()

    async def poll(self) -> int | None:
        """See :class:`LeaseMixin`; where root's program was killed, its server ends at the latest here."""
        status: int | None = await super().poll()
        if status is not None and not self._starting:
            await above_server.end_left()
        return status

    def root_pid(self) -> int | None:
        """The server's process; kernels and terminals are below it."""
        return self.pid or None

    def get_args(self) -> list[str]:
        """Arguments of the server, which refuses root unless told."""
        args: list[str] = list(super().get_args())
        if self.shared_account and os.geteuid() == 0 and "--allow-root" not in args:
            args.append("--allow-root")
        return args

    async def may_keep_kernels(self) -> bool | None:
        """See :class:`StartOptions`."""
        if self.environment.get(_KEEPS_KERNELS) == "0":
            return False
        account = self._account_of_trial()
        alone = None if account is None else await TRIALS.outcome(account)
        if account is None or alone is not False or not self._may_stand_above():
            return alone
        return await above_server.is_offered(account, above_server.trials_of(self.kernels_by_root))

    def _account_of_trial(self) -> Account | None:
        """Who can tell; None where nothing can be run as them."""
        named = self.environment.get(criu.VARIABLE)
        if self.shared_account:
            place = named or criu_of_this_account()
            return Account(environ=environ_of_trial(place))
        try:
            account = _account_of(self.account)
        except web.HTTPError:
            return None
        if os.geteuid() != 0:
            return None
        return Account(
            environ=environ_of_trial(named, home=account.pw_dir),
            uid=account.pw_uid,
            gid=account.pw_gid,
            groups=tuple(os.getgrouplist(account.pw_name, account.pw_gid)),
        )

    def get_env(self) -> dict[str, str]:
        """The environment, with the programs of the chosen environment first."""
        env = super().get_env()
        chosen = self.notebook_options().environment
        interpreter = self.environments.get(chosen, self.cmd[0])
        programs = str(Path(interpreter).parent)
        if programs not in env.get("PATH", "").split(os.pathsep):
            env["PATH"] = os.pathsep.join(filter(None, [programs, env.get("PATH", "")]))
        if self.shared_account and (place := criu_of_this_account()):
            env.setdefault(criu.VARIABLE, place)
        if self._above is not None:
            env[orders.VARIABLE] = str(self._above.place)
        return env

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Name and home of the user."""
        if not self.shared_account:
            own = pwd.getpwnam(self.account)
            told = {"USER": own.pw_name, "HOME": own.pw_dir, "SHELL": own.pw_shell}
            return env | {name: value for name, value in told.items() if value}
        shell = os.environ.get("SHELL", "/bin/sh")
        return {**env, "USER": self.user.name, "HOME": str(self.home_dir), "SHELL": shell}

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """What the child does before it becomes the server."""
        become = self._shared_preexec() if self.shared_account else self._real_user_preexec()
        group = None if self._prepared is None else self._prepared.cgroup
        program = self._above
        if group is None and program is None:
            return become

        def preexec() -> None:
            if group is not None:
                # While it may still do so, and before it can allocate anything.
                enter(group)
            if program is None:
                become()
                return
            program.stand()
            become()
            program.stay_below()

        return preexec

    def _shared_preexec(self) -> Callable[[], None]:
        home = self._made_home()

        def preexec() -> None:
            os.chdir(home)

        return preexec

    def _real_user_preexec(self) -> Callable[[], None]:
        _account_of(self.account)
        become_user = super().make_preexec_fn(self.account)
        # Loaded before the fork: loading is not safe after it.
        libc = ctypes.CDLL(None, use_errno=True)

        def preexec() -> None:
            become_user()
            if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")

        return preexec

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Certificates stay where they are when the server runs as the same account."""
        if self.shared_account:
            return paths
        moved: dict[str, str] = await super().move_certs(paths)
        return moved


def _account_of(name: str) -> pwd.struct_passwd:
    """The account that a notebook of this user's runs as; those of the system are refused."""
    uid = _uid_of(name)
    if (uid < LEAST_USER_ID and uid != os.geteuid()) or uid == 0:
        message = f"{name} is an account of the system, not of a person: no notebook runs as it."
        raise refusal(message, reason="system_account", status=403)
    return pwd.getpwuid(uid)


def _uid_of(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        message = f"This machine has no account named {name}: ask its admin for one."
        raise refusal(message, reason="no_account", status=403) from None

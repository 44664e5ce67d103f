"""What ``up`` prints: one screen that says where to go, and nothing that is not so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.devices.devices import Device
from gpucommons.scheduler.up.settings import Settings
from gpucommons.scheduler.up.state_folder import StateFolder

#: Said before each part is started: together they take up to a minute.
STARTS = {
    "agent": "Starting: the GPUs of this machine…",
    "scheduler": "Starting: the scheduler…",
    "proxy": "Starting: the way to notebooks (JupyterHub's proxy)…",
    "hub": "Starting: JupyterHub, which takes longest…",
    "culler": "Starting: the watch over idle notebooks…",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What runs now."""

    settings: Settings
    folder: StateFolder
    #: Who may log in.
    users: Sequence[str]
    #: Members of each team in force.
    teams: Mapping[str, Sequence[str]]
    devices: Sequence[Device]
    config: Path
    password: str = field(repr=False)
    #: Kernels and jobs could be kept on such a machine, and there is no CRIU to do it.
    lacks_criu: bool = False
    #: Where the caller said that it is.
    named_criu: str = ""
    #: Teams are the scheduler's own: the file is read only while there are none.
    started_before: bool = False


def welcome_text(summary: Summary) -> str:
    """The screen after everything is ready."""
    settings = summary.settings
    rows = _login_rows(summary) if settings.hub else [("API", _socket_text(summary))]
    if settings.beside:
        rows.append(("Hub", f"{settings.beside}: restart it after the first start of this"))
    rows += [
        ("GPUs", _gpus_text(summary.devices)),
        ("Quotas", _quotas_text(summary)),
        ("State", f"{summary.folder.root} (logs in {summary.folder.logs.name}/)"),
    ]
    lines = ["", "GPU Commons is running.", ""]
    lines += [f"  {name:<10}{text}" for name, text in rows]
    lines += ["", *_warnings(summary), "Ctrl-C stops it. " + _jobs_text(settings), ""]
    return "\n".join(lines)


def goodbye_text(settings: Settings) -> str:
    """What happens on Ctrl-C."""
    return f"\nStopping. {_jobs_text(settings)}"


def _login_rows(summary: Summary) -> list[tuple[str, str]]:
    rows = [
        ("Open", f"http://127.0.0.1:{summary.settings.port}"),
        ("Users", _users_text(summary)),
    ]
    if summary.settings.admission != "accounts":
        same = ", the same for all" if len(summary.users) > 1 else ""
        rows.append(("Password", f"{summary.password}   (also in {summary.folder.password}{same})"))
    else:
        rows.append(("Password", "that of the user's account on this machine"))
    return rows


def _quotas_text(summary: Summary) -> str:
    if not summary.started_before:
        return str(summary.config)
    return f"those of `gpucommons teams` ({summary.config} is read only while there are no teams)"


def _users_text(summary: Summary) -> str:
    """``alice (vision), bob (nlp), admin (GPU admin)``."""
    texts = []
    for user in summary.users:
        roles = [team for team, members in summary.teams.items() if user in members]
        if user in summary.settings.admins:
            roles.append("GPU admin")
        texts.append(f"{user} ({', '.join(roles) or 'in no team'})")
    return ", ".join(texts) or "nobody: add members to the teams"


def _socket_text(summary: Summary) -> str:
    return f"unix:{summary.folder.root / 'api.sock'} (for `gpucommons` on this machine)"


def _gpus_text(devices: Sequence[Device]) -> str:
    if not devices:
        return "none: notebooks and jobs run on the CPU"
    kinds = Counter((device.kind, device.simulated) for device in devices)
    return ", ".join(
        f"{count} × {kind}" + (", simulated (no real GPU stands behind them)" if simulated else "")
        for (kind, simulated), count in kinds.items()
    )


def _warnings(summary: Summary) -> list[str]:
    settings = summary.settings
    lines = []
    if settings.admission == "trusted" and not settings.beside:
        lines.append(
            f"All users share the account {settings.account!r}: nothing isolates their files and"
            " processes from each other."
        )
    if settings.beside and settings.shared_account:
        lines.append(
            f"Whom that hub admits shares the account {settings.account!r} with all others: nothing isolates"
            " their files and processes from each other."
        )
    elif settings.admission == "one":
        lines.append(
            f"Only {settings.account!r} may log in, because everything runs as that account."
            " --trusted-users admits the members of all teams, with nothing that isolates them."
        )
        if not any(settings.account in users for users in summary.teams.values()):
            lines.append(_in_no_team(summary))
    if summary.lacks_criu:
        lines.append(
            "Kernels of stopped notebook servers and the memory of stopped jobs are not kept:"
            f" {_why_no_criu(summary)}"
        )
    return lines


def _in_no_team(summary: Summary) -> str:
    account = summary.settings.account
    if summary.started_before:
        return f"{account!r} is in no team: add it to one with `gpucommons apply`."
    return f"{account!r} is in no team of {summary.config}: add it there."


def _why_no_criu(summary: Summary) -> str:
    if summary.named_criu:
        return (
            f"{summary.named_criu} (GPUCOMMONS_CRIU) is no CRIU 4.2 or newer, or others than"
            f" {summary.settings.account} and root may write there."
        )
    return "there is no CRIU here. `gpucommons hibernation setup` gets it, without root."


def _jobs_text(settings: Settings) -> str:
    jobs = (
        "Training jobs end with it"
        if settings.stop_jobs
        else "Training jobs keep running and are taken up again at the next start (--stop-jobs ends them)"
    )
    if settings.beside:
        return f"{jobs}; notebook servers are the hub's, and go on."
    if not settings.hub:
        return f"{jobs}."
    if settings.stop_jobs:
        return "Notebooks and training jobs end with it."
    return (
        "Notebook servers end with it; kernels that were saved go on at their next start. Training jobs keep"
        " running and are taken up again at the next start (--stop-jobs ends them)."
    )

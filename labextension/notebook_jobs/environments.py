"""What *Notebook Jobs* offers in its form: environments, and sizes as compute types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from jupyter_scheduler.environments import EnvironmentManager
from jupyter_scheduler.exceptions import SchedulerError as Refused
from jupyter_scheduler.models import RuntimeEnvironment

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.cli.connect import here
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest, SchedulerError

#: The environment that needs no choice: its name here, in place of "".
DEFAULT = "default"
FORMATS = {"ipynb": "Notebook", "html": "HTML"}
_NO_GPU, _OF = "No GPU", " · team "


@contextmanager
def told() -> Iterator[None]:
    """What our scheduler refuses, with the same sentence, in jupyter-scheduler's way."""
    try:
        yield
    except SchedulerError as error:
        raise Refused(str(error)) from error


@asynccontextmanager
async def scheduler_here() -> AsyncIterator[AsyncSchedulerClient]:
    """A client of the scheduler, as the command line finds it; errors as above."""
    with told():
        url, token = here()
        async with AsyncSchedulerClient(url, token=token) as scheduler:
            yield scheduler


class GpuEnvironments(EnvironmentManager):
    """Environments that our scheduler knows, each with the sizes of the user's teams."""

    async def list_environments(self) -> list[RuntimeEnvironment]:
        """All that may be chosen; the default first."""
        async with scheduler_here() as scheduler:
            known = await scheduler.send(calls.environments())
            mine = (await scheduler.send(calls.whoami())).teams
            teams = (await scheduler.send(calls.teams())).teams
        # The account that runs the scheduler is in none, and submits for each.
        own = {one.name: one.sizes for one in teams if one.name in mine or not mine}
        offered = _sizes(own, is_named=len(mine) != 1)
        words = {DEFAULT: "As the notebook" if known.kind == "folder" else "As the admin says"}
        words |= {one.environment: one.name for one in known.environments if one.environment}
        return [_environment(name, label, offered) for name, label in words.items()]

    def manage_environments_command(self) -> str:
        """None of Lab's: environments are made as ever."""
        return ""

    def output_formats_mapping(self) -> dict[str, str]:
        """What the executed notebook can be had as."""
        return dict(FORMATS)


def _environment(name: str, label: str, sizes: list[str]) -> RuntimeEnvironment:
    return RuntimeEnvironment(
        name=name,
        label=label,
        description=label,
        file_extensions=["ipynb"],
        output_formats=list(FORMATS),
        metadata={},
        compute_types=sizes,
        default_compute_type=sizes[0],
    )


def _sizes(by_team: dict[str, list[int]], *, is_named: bool) -> list[str]:
    """Who could mean several teams chooses with the size whose it is."""
    return [
        compute_type(size, team if is_named else "")
        for team, sizes in by_team.items()
        for size in sorted({0, *sizes})
    ] or [_NO_GPU]


def compute_type(milli_gpu: int, team: str = "") -> str:
    """``0.5 GPU``, ``2 GPU · team vision``."""
    words = f"{milli_gpu / WHOLE_MILLI_GPU:g} GPU" if milli_gpu else _NO_GPU
    return f"{words}{_OF}{team}" if team else words


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """What a worker gets, and whose it is where that was said."""

    milli_gpu: int
    team: str = ""


def read_compute_type(text: str | None) -> Size:
    """The other way round; what is not chosen has no GPU.

    Raises
    ------
    BadRequest
        When it is no such text.
    """
    words, _, team = (text or _NO_GPU).partition(_OF)
    try:
        gpus = 0.0 if words == _NO_GPU else float(words.removesuffix(" GPU"))
        milli_gpu = round(gpus * WHOLE_MILLI_GPU)
    except (ValueError, OverflowError):
        message = f"{text!r} is no size: write {_NO_GPU}, or a number of GPUs as in 0.5 GPU."
        raise BadRequest(message) from None
    return Size(milli_gpu=milli_gpu, team=team)

"""``TrainPanel(train)``: run a function of this notebook, or a script, as a training job.

The form is drawn by the page; what it does is plain Python, and the same without a page::

    TrainPanel(train, milli_gpu=2000).submit()
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from pydantic import ValidationError

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.labextension.requests import AWAY, TIME_LIMITS_S, sentence_of
from gpucommons.labextension.widgets.many import ManyJobs
from gpucommons.labextension.widgets.surroundings import connect, is_in_job
from gpucommons.labextension.widgets.targets import Target, file_job, proposal_of
from gpucommons.scheduler.client import calls, snapshot
from gpucommons.scheduler.client.submission import (
    FileJob,
    default_name,
    request_for_file,
    results_below,
)
from gpucommons.scheduler.environments.images import of_this_notebook
from gpucommons.scheduler.environments.reading import NoEnvironment, read_environment
from gpucommons.scheduler.errors import BadRequest, Misconfigured, SchedulerError, Unreachable
from gpucommons.scheduler.launchers import AUTO, LAUNCHERS
from gpucommons.scheduler.models import JobRequest, JobView, Quote, TeamView
from gpucommons.scheduler.scripts.proposed_launcher import Proposal

_FOLDER = Path(__file__).parent
_MIB_PER_GIB = 1024
_ONE_GPU = 1000
#: The time limit until another one is chosen.
OWN_LIMIT_S = 7200


class TrainPanel(ManyJobs, anywidget.AnyWidget):
    """A form that submits one file or function."""

    _esm = _FOLDER / "train.js"
    _css = _FOLDER / "widgets.css"

    #: What runs, for people.
    target = traitlets.Unicode().tag(sync=True)
    #: What the team may train on, as the scheduler offers it.
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)
    #: The same for people: "½".
    size_words = traitlets.List(traitlets.Unicode()).tag(sync=True)
    milli_gpu = traitlets.Int(1000, min=0, max=1_024_000).tag(sync=True)
    #: In place of a size: the smallest slice with so much GPU memory; 0 = by size.
    gpu_memory_gib = traitlets.Float(0.0, min=0, max=16_384).tag(sync=True)
    workers = traitlets.Int(1, min=1, max=1024).tag(sync=True)
    #: What joins several workers; ``auto``: what the file proposes.
    launcher = traitlets.Unicode(AUTO).tag(sync=True)
    #: What forms offer for it, with words, and why it is proposed; empty where nothing is to be joined.
    launchers: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    proposed = traitlets.Unicode("").tag(sync=True)
    teams = traitlets.List(traitlets.Unicode()).tag(sync=True)
    team = traitlets.Unicode("").tag(sync=True)
    #: 0 = the team's own limit.
    max_run_s = traitlets.Int(OWN_LIMIT_S, min=0).tag(sync=True)
    #: What forms offer for it, with words.
    time_limits: traitlets.List[list[int | str]] = traitlets.List().tag(sync=True)
    #: The Python that it runs with: a name or path; "" = the default.
    environment = traitlets.Unicode("").tag(sync=True)
    #: Large files that stay behind: ``link`` links them from the home, ``without`` goes without.
    left_out = traitlets.Unicode("").tag(sync=True)
    #: What the script gets when a stop is announced; "" = as the pool says.
    notice_signal = traitlets.Enum(("", "SIGUSR1", "none"), "").tag(sync=True)
    #: What an exit with status 0 after a signal means.
    exit_after_signal = traitlets.Enum(("preempted", "success"), "preempted").tag(sync=True)
    #: What stays behind, once that was found.
    left_behind = traitlets.Unicode("").tag(sync=True)
    #: What the form chose by itself, in words.
    settings = traitlets.Unicode("").tag(sync=True)
    #: What would happen to it now, as the scheduler says.
    quota_line = traitlets.Unicode().tag(sync=True)
    #: The submitted job, as the API shows it; empty before.
    job = traitlets.Dict().tag(sync=True)
    trouble = traitlets.Unicode().tag(sync=True)

    #: The teams as the scheduler shows them, once it was asked.
    _views: Sequence[TeamView] = ()
    #: What is submitted; None where there is nothing to run.
    _file: FileJob | None = None
    #: The launcher that it proposes, and why.
    _proposal: Proposal | None = None
    #: Environment and folder that nobody named, in words; None before the scheduler was asked.
    _found: Sequence[str] | None = None
    #: A changed choice is quoted anew: not while the form is made, nor where nothing can run.
    _follows = False

    def __init__(
        self,
        target: Target = None,
        *,
        notebook: str | os.PathLike[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._environ = os.environ if environ is None else environ
        self.on_msg(self._on_message)
        self._offer()
        if is_in_job(self._environ):
            return
        with self._telling():
            if options.get("milli_gpu") and options.get("gpu_memory_gib"):
                raise Misconfigured("Say milli_gpu or gpu_memory_gib, not both: a size, or memory.")
            self._file = replace(
                file_job(target, notebook, self._environ), parameters=dict(parameters or {})
            )
            self._look_at_folder(self._file)
            self._proposal = proposal_of(self._file)
            call = f": {self._file.function}()" if self._file.function else ""
            self.target = f"{self._file.path}{call}"
            self._choose_team()
            self.quote()
        self._follows = self._file is not None

    # --- plain Python ------------------------------------------------------------------------

    def quote(self) -> Quote:
        """Ask what would happen to this job if it were submitted now.

        Raises
        ------
        SchedulerError
            With what is wrong, also inside a job, which submits no other.
        """
        # What was said of another size is not to be read as an answer to this one.
        self.quota_line = ""
        request = self._unpacked()
        with connect(self._environ) as scheduler:
            quote = scheduler.send(calls.quote_job(request))
        simulated = "Its GPUs are simulated." if quote.simulated else ""
        said = (quote.text, quote.stop_text, quote.drill_text, simulated)
        self.quota_line = " ".join(filter(None, said))
        return quote

    def submit(self) -> JobView:
        """Pack the saved file's folder and submit it; what is wrong is raised, and nothing submitted."""
        request, packed = self.packed()
        with connect(self._environ) as scheduler:
            scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
            job = scheduler.send(calls.submit(request, key=str(uuid.uuid4())))
        self.job, self.trouble = job.model_dump(mode="json"), ""
        return job

    def packed(self) -> tuple[JobRequest, snapshot.Packed]:
        """What is submitted, with its files."""
        chosen = self._chosen
        self._look_at_folder(chosen)
        if self.left_behind and self.left_out not in ("link", "without"):
            message = (
                f"{self.left_behind} would stay behind. Choose: link it from your home"
                " (left_out='link'), or go without it (left_out='without')."
            )
            raise BadRequest(message)
        try:
            return request_for_file(
                replace(chosen, links_left_out=self.left_out == "link"),
                self._options(),
                self._size(),
                max_bytes=snapshot.MAX_SNAPSHOT_BYTES,
            )
        except ValidationError as error:
            raise BadRequest(sentence_of(error)) from None

    def _look_at_folder(self, chosen: FileJob) -> None:
        excluded = snapshot.preview(chosen.root).excluded
        self.left_behind = ", ".join(file.path for file in excluded if file.linkable)

    def refresh(self) -> JobView | None:
        """Look at the submitted job again."""
        if not self.job:
            return None
        with connect(self._environ) as scheduler:
            job = scheduler.send(calls.job(self.job["id"]))
        self.job = job.model_dump(mode="json")
        return job

    # --- the form ----------------------------------------------------------------------------

    @property
    def _chosen(self) -> FileJob:
        if is_in_job(self._environ):
            message = (
                "This notebook runs as a job already, and a job submits no other. Submit from the"
                " notebook in JupyterLab; a cell that jobs run as well asks first:"
                " if 'GPUCOMMONS_JOB_ID' not in os.environ."
            )
            raise Misconfigured(message)
        if self._file is None:
            raise Misconfigured(self.trouble or "There is nothing to run.")
        return self._file

    def _size(self) -> dict[str, int]:
        """Workers and the GPUs of each, as a role has them."""
        count = {"count": self.workers}
        if self.gpu_memory_gib:
            return {"gpu_memory_mib": max(1, round(self.gpu_memory_gib * _MIB_PER_GIB)), **count}
        return {"milli_gpu": self.milli_gpu, **count}

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.team:
            options["team"] = self.team
        if self.max_run_s:
            options["max_run_s"] = self.max_run_s
        results_to = results_below(Path.home(), self._chosen.root)
        if results_to is not None:
            options["results_to"] = results_to
        if self.environment:
            options["environment"] = self.environment
        if self.launcher != AUTO:
            options["launcher"] = self.launcher
        if self.notice_signal:
            options["notice_signal"] = self.notice_signal
        return {**options, "exit_after_signal": self.exit_after_signal}

    def _unpacked(self) -> JobRequest:
        """The request without its snapshot: enough for a quote."""
        name = default_name(self._chosen.path)
        role = {**self._size(), "command": ["python"]}
        options = self._options()
        if self.workers > 1 and self._proposal is not None:
            options.setdefault("launcher", self._proposal.launcher)
        try:
            return JobRequest.model_validate({"name": name, **options, "roles": [role]})
        except ValidationError as error:
            raise BadRequest(sentence_of(error)) from None

    def _choose_team(self) -> None:
        with connect(self._environ) as scheduler:
            who = scheduler.send(calls.whoami())
            self.teams = who.teams
            self._views = scheduler.send(calls.teams()).teams
            image = ""
            if who.environments == "image":
                image = scheduler.send(calls.environments()).default
        if self.team not in self.teams:
            self.team = self.teams[0] if self.teams else ""
        if who.environments == "folder" and not self.environment:
            # This kernel's own, whose packages the notebook was written with.
            self.environment = os.path.realpath(sys.prefix)
        self._found = _found(self.environment, image, self._options().get("results_to"))
        self._offer()

    @traitlets.observe(
        "team",
        "milli_gpu",
        "gpu_memory_gib",
        "workers",
        "launcher",
        "max_run_s",
        "environment",
        "left_out",
        "notice_signal",
        "exit_after_signal",
    )
    def _on_choice(self, _change: object) -> None:
        """The page or a cell asks for something else: what was said is said anew."""
        self._offer()
        if self._follows:
            with self._telling():
                self.quote()

    def _offer(self) -> None:
        found = next((team for team in self._views if team.name == self.team), None)
        offered = found.sizes if found is not None else []
        limits = [limit or 0 for limit in TIME_LIMITS_S]
        chosen = [] if self.max_run_s in limits else [self.max_run_s]
        # Sizes and their words reach the page together.
        with self.hold_sync():
            self.sizes = sorted({*offered, self.milli_gpu})
            self.size_words = [format_milli_gpu(size) if size else "CPU" for size in self.sizes]
            if self._found is not None:
                self.settings = " ".join((*_limit_settings(self.max_run_s), *self._found))
            self._offer_launchers()
            self.time_limits = [[limit, _limit_words(limit)] for limit in (*chosen, *limits)]

    def _offer_launchers(self) -> None:
        """One worker with one GPU has nothing to join."""
        found = self._proposal
        auto, why = "Plain: one process", ""
        if self.workers > 1 and found is not None:
            auto, why = f"{found.launcher} (proposed)", f"{found.launcher}, as {found.why}."
        self.proposed = why if self.launcher == AUTO else ""
        if self.workers == 1 and self.milli_gpu <= _ONE_GPU and self.launcher == AUTO:
            self.launchers = []
            return
        chosen = () if self.launcher in {AUTO, *LAUNCHERS} else (self.launcher,)  # a plugin's
        self.launchers = [[AUTO, auto], *([name, name] for name in (*LAUNCHERS, *chosen))]

    def _on_message(self, _widget: object, message: object, _buffers: object) -> None:
        """The page's buttons; everything else was set through the traits."""
        actions: dict[object, Callable[[], object]] = {
            "quote": self.quote,
            "submit": self.submit,
            "refresh": self.refresh,
        }
        action = actions.get(message) if isinstance(message, str) else None
        if action is not None:
            with self._telling():
                action()

    def _telling(self) -> _Telling:
        return _Telling(self)

    def __repr__(self) -> str:
        """What to read where nothing can be drawn."""
        if self.job:
            return f"TrainPanel: {self.job['name']} is {self.job['state_text']}"
        if self.trouble:
            return f"TrainPanel: {self.trouble}"
        if not self.target:
            return ""
        size = "CPU only" if not self.milli_gpu else format_gpus(self.milli_gpu)
        if self.gpu_memory_gib:
            size = f"{self.gpu_memory_gib:g} GiB of GPU memory"
        return f"TrainPanel: {self.target} on {size}. {self.quota_line}".rstrip()


def _limit_settings(max_run_s: int) -> Sequence[str]:
    if max_run_s != OWN_LIMIT_S:
        return ()
    limit = _limit_words(max_run_s)
    return (
        f"It may run for {limit} and then ends, finished or not: choose another time limit if it needs"
        " longer.",
    )


def _found(environment: str, image: str, results_to: str | None) -> Sequence[str]:
    """What the form found by itself, and where it comes from."""
    found = []
    if environment:
        with contextlib.suppress(NoEnvironment):
            found.append(f"Runs in {read_environment(environment).text()}, this kernel's own.")
    elif image:
        found.append(f"Runs in {of_this_notebook(image)}.")
    if results_to is not None:
        place = "results/" if results_to == "." else f"{results_to}/results/"
        found.append(f"Results come back to {place}, beside the file.")
    return found


def _limit_words(seconds: int) -> str:
    """``2 hours``; 0 is whatever the team's rules allow."""
    if seconds == 0:
        return "The team's limit"
    units = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
    unit, length = next((name, length) for name, length in units if seconds % length == 0)
    count = seconds // length
    return f"{count} {unit}{'s' if count != 1 else ''}"


class _Telling:
    """Shows a refusal on the form instead of a traceback in the notebook."""

    def __init__(self, panel: TrainPanel) -> None:
        self._panel = panel

    def __enter__(self) -> None:
        self._panel.trouble = ""

    def __exit__(self, kind: object, error: BaseException | None, _traceback: object) -> bool:
        if isinstance(error, SchedulerError):
            self._panel.trouble = AWAY if isinstance(error, Unreachable) else str(error)
            return True
        return False

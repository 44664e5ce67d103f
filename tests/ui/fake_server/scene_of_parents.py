"""Schedules and pipelines as the scripted server has them; times are fixed, so that every line can be asserted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NOT_RUNNING = "The scheduler did not run at that time, and 4 h later it was too late"
HOUR, DAY = 3_600_000, 86_400_000
#: Tuesday, 24 November 2026, 02:00 in Berlin.
TWO = int(datetime(2026, 11, 24, 1, tzinfo=UTC).timestamp() * 1000)
#: What starts it besides.
TRIGGERS = [
    {
        "kind": "path",
        "words": "/home/ann/data changed",
        "what": "/home/ann/data",
        "every_s": 300,
        "version": "",
        "problem": "The look nightly-look-1 did not end well: There is no /home/ann/data for you.",
    },
    {
        "kind": "metric",
        "words": "accuracy fell below 97.5",
        "what": "accuracy",
        "below": 97.5,
        "version": "",
        "problem": "",
    },
]


NO_ROOM = "You have 100 pipelines that are not over: cancel one, or wait until one is over."
#: A file of steps before it runs, with one that stays behind.
FILE: dict[str, Any] = {
    "path": "pipeline.yaml",
    "name": "nightly-assembly",
    "team": None,
    "seen": "5ee2",
    "steps": [
        {
            "name": "clean",
            "runs": ["CPU only: python -u clean.py"],
            "copies": 1,
            "after": {},
            "inputs": [],
            "environment": "",
            "secrets": [],
            "variables": [],
            "links": [],
            "results_to": None,
            "others": [],
        },
        {
            "name": "train",
            "runs": ["1 GPU: python -u train.py"],
            "copies": 2,
            "after": {"clean": "ok"},
            "inputs": ["clean/clean.parquet"],
            "environment": "vision-2026",
            "secrets": ["HF_TOKEN=hugging-face"],
            "variables": [],
            "links": [],
            "results_to": None,
            "others": ["pools=gpu"],
        },
        {
            "name": "report",
            "runs": ["CPU only: python -u report.py"],
            "copies": 1,
            "after": {"train": "any"},
            "inputs": [],
            "environment": "",
            "secrets": [],
            "variables": [],
            "links": [],
            "results_to": None,
            "others": [],
        },
    ],
    "folders": [
        {
            "folder": "",
            "files": 4,
            "size_bytes": 4096,
            "linked": False,
            "excluded": [
                {
                    "path": "raw.bin",
                    "size_bytes": 60 << 20,
                    "reason": "is larger than 32 MiB",
                    "linkable": True,
                }
            ],
        }
    ],
}


class Schedules:
    """What there is, changed by what the page asks."""

    def __init__(self) -> None:
        self.kept = {"user-a/nightly": nightly(), "user-b/weekly": weekly()}

    def answer(self, path: list[str], body: Any) -> tuple[int, dict[str, Any]]:
        """The answer to one call about schedules."""
        match path:
            case ["schedules"]:
                return 200, {"schedules": list(self.kept.values()), "cursor": None}
            case ["schedule"]:
                made = nightly(name=body["file"]["request"].get("name", "train"), runs=[])
                self.kept[f"user-a/{made['name']}"] = made
                return 200, made
            case ["schedules", owner, name]:
                return 200, self.kept[f"{owner}/{name}"]
            case ["schedules", owner, name, verb]:
                return 200, self._steered(f"{owner}/{name}", verb, body)
        raise ValueError(path)

    def _steered(self, key: str, verb: str, body: Any) -> dict[str, Any]:
        if verb == "remove":
            return self.kept.pop(key)
        if verb == "promote":
            (chosen,) = (one for one in self.kept[key]["runs"] if one["job_id"] == body["job"])
            why = f"accuracy {chosen['value']:g}, chosen by user-a"
            by_hand = {name: chosen[name] for name in ("job_id", "job_name")} | {"why": why}
            self.kept[key] |= {"promoted": self.kept[key]["promoted"] | by_hand}
            return self.kept[key]
        changes: dict[str, dict[str, Any]] = {
            "run": {"asked": True},
            "suspend": {"suspend": True, "next_ms": []},
            "resume": {"suspend": False, "next_ms": next_times()},
        }
        self.kept[key] |= changes[verb]
        return self.kept[key]


def times(cron: str, zone: str) -> tuple[int, dict[str, Any]]:
    """The next times of what is typed, or why there are none."""
    if len(cron.split()) != 5:
        message = f"cron: {cron!r} has not five fields. Write minute, hour, day of month, month and day of week."
        return 422, {"error": "Misconfigured", "message": message}
    return 200, {"next_ms": next_times() if zone else []}


def next_times() -> list[int]:
    return [TWO + days * DAY for days in range(5)]


def run(outcome: str, due_ms: int, **changes: Any) -> dict[str, Any]:
    plain = {"until_ms": None, "count": 1, "text": "", "job_id": None, "job_name": ""}
    plain |= {"job_state": None}
    return {"outcome": outcome, "due_ms": due_ms, **plain, "by_hand": False, **changes}


def nightly(**changes: Any) -> dict[str, Any]:
    return {
        "name": "nightly",
        "owner": "user-a",
        "team": "vision",
        "schedule": "0 2 * * *",
        "time_zone": "Europe/Berlin",
        "triggers": TRIGGERS,
        "compared_by": "accuracy",
        "promoted": {
            "job_id": "gone",
            "job_name": "nightly-1",
            "since_ms": TWO - 4 * DAY + 2 * HOUR,
            "why": "accuracy 98, the first",
        },
        "concurrency_policy": "Forbid",
        "starting_deadline_s": 14_400,
        "suspend": False,
        "held": False,
        "asked": False,
        "what": "1 GPU: python -u train.py",
        "kind": "retrain",
        "next_ms": next_times(),
        "hindrance": "",
        "runs": [
            run(
                "started",
                TWO - DAY,
                job_id="0190f000-0000-7000-8000-000000000006",
                job_name="digits-6",
                job_state="succeeded",
                verdict="kept",
                why="accuracy 97, was 98: nightly-1 kept",
                value=97.0,
            ),
            run("missed", TWO - 3 * DAY, until_ms=TWO - 2 * DAY, count=2, text=NOT_RUNNING),
            run("started", TWO - 4 * DAY + HOUR, job_id="gone", job_name="nightly-1", by_hand=True)
            | {
                "job_state": "succeeded",
                "verdict": "promoted",
                "why": "accuracy 98, the first",
                "value": 98.0,
            },
        ],
        "mine": True,
        "steerable": True,
        "simulated": True,
        **changes,
    }


def weekly() -> dict[str, Any]:
    others = {"owner": "user-b", "mine": False, "steerable": False}
    held = {"suspend": True, "held": True, "next_ms": [], "runs": [], "compared_by": ""}
    return nightly(name="weekly", schedule="@weekly", time_zone="UTC", **others, **held)


class Pipelines:
    """One that failed at a step, until it is retried."""

    def __init__(self) -> None:
        self.kept = assembly()
        #: The first that is to run finds none.
        self.has_room = False

    def answer(self, path: list[str], body: Any) -> tuple[int, dict[str, Any]]:
        """The answer to one call about pipelines."""
        match path:
            case ["pipelines"]:
                return 200, {"pipelines": [self.kept], "cursor": None}
            case ["pipeline"] if body is None:
                return 200, FILE
            case ["pipeline"] if self.has_room:
                self.kept = assembly(name="nightly-assembly-42", state="running", retry_from=None)
            case ["pipeline"]:
                self.has_room = True
                return 409, {"error": "PolicyRefused", "message": NO_ROOM}
            case ["pipelines", _, _, "retry"]:
                steps = {step["name"]: step for step in self.kept["steps"]}
                anew = {"state": "waiting", "retries": 1, "job_id": None, "ended_ms": None}
                steps[body["step"]] |= anew | {"started_ms": None}
                steps["assembly"] |= {"state": "waiting", "text": "Waits for vit.", "retries": 1}
                self.kept |= {"state": "running", "retry_from": None, "ended_ms": None}
            case ["pipelines", _, _, "cancel"]:
                self.kept |= {"state": "cancelled", "ended_ms": TWO}
        return 200, self.kept


def step(name: str, state: str, **changes: Any) -> dict[str, Any]:
    job = None if state in ("waiting", "blocked") else f"job-of-{name}"
    return {
        "name": name,
        "state": state,
        "text": "",
        "what": f"CPU only: python -u {name}.py",
        "after": {},
        "inputs": [],
        "retries": 0,
        "job_id": job,
        "job_name": "" if job is None else f"assembly-{name}-1",
        "job_state": None if job is None else state,
        "started_ms": None if job is None else TWO,
        "ended_ms": None if job is None else TWO + 540_000,
        "ended_text": "",
        "version": None,
        **changes,
    }


def assembly(**changes: Any) -> dict[str, Any]:
    def reads(*places: tuple[str, str]) -> dict[str, Any]:
        inputs = [{"step": name, "path": path, "to": f"{name}/{path}"} for name, path in places]
        return {"inputs": inputs, "after": {name: "ok" for name, _ in places}}

    failure = "ValueError: expected 64 channels, got 32 (train_vit.py:88)."
    return {
        "name": "nightly-assembly-41",
        "owner": "user-a",
        "team": "vision",
        "state": "failed",
        "submitted_ms": TWO,
        "ended_ms": TWO + HOUR,
        "steps": [
            step("clean", "succeeded"),
            step("cnn", "succeeded", what="1 GPU: python -u train_cnn.py")
            | reads(("clean", "clean.parquet")),
            step("vit", "failed", what="2 GPU: python -u train_vit.py", ended_text=failure)
            | reads(("clean", "clean.parquet")),
            step("assembly", "blocked", text="Needs vit, which failed.")
            | reads(("cnn", "model.pt"), ("vit", "model.pt")),
        ],
        "retry_from": "vit",
        "mine": True,
        "steerable": True,
        "simulated": True,
        **changes,
    }


class Sweeps:
    """One that goes on, until it is stopped."""

    def __init__(self) -> None:
        self.kept = search()

    def answer(self, path: list[str], body: Any) -> tuple[int, dict[str, Any]]:
        """The answer to one call about sweeps."""
        match path:
            case ["sweeps"]:
                return 200, {
                    "sweeps": [self.kept | {"trials": [], "request": None}],
                    "cursor": None,
                }
            case ["sweeps", _, "figures"]:
                held = (6000, 8000, 8000, 4000, 7000)
                gpus = [
                    {"at_ms": TWO + n * HOUR, "milli_gpu": milli} for n, milli in enumerate(held)
                ]
                importance = {"lr": 0.71, "batch": 0.18, "dropout": 0.11}
                return 200, {"gpus": gpus, "importance": importance, "importance_text": ""}
            case ["sweeps", _, "budget"]:
                self.kept |= {"trials_of": self.kept["trials_of"] + body["trials"]}
            case ["sweeps", _, "stop"]:
                self.kept |= {"ended_ms": TWO + 5 * HOUR, "text": "It was stopped.", "running": 0}
        return 200, self.kept


def search() -> dict[str, Any]:
    states = ("live", "done", "done", "held", "held", "waiting", "held", "failed")
    trials = [
        {
            "number": number,
            "values": {
                "lr": 10 ** -(1 + number % 4),
                "batch": 32 << number % 3,
                "dropout": number / 20,
            },
            "state": state,
            "job_id": f"0190f000-0000-7000-8000-00000000010{number}",
            "job_name": f"digits-sweep-{number}",
            "best": None if state == "failed" else 0.99 - number / 100,
            "best_step": 45 - 5 * number,
            "best_ms": TWO + (9 - number) * HOUR // 2,
            "step": 45 - 5 * number,
            "rungs": 1 if state == "held" else 2,
            "milli_gpu_s": 3_600_000 // number,
            "text": "It failed." if state == "failed" else "",
        }
        for number, state in enumerate(states, 1)
    ]
    return {
        "id": "0190f000-0000-7000-8000-000000000100",
        "kind": "sweep",
        "name": "digits-sweep-3",
        "owner": "user-a",
        "team": "vision",
        "made_ms": TWO,
        "ended_ms": None,
        "text": "",
        "metric": "accuracy",
        "direction": "maximize",
        "sampler": "tpe",
        "drawn": [
            "lr: 0.0001 to 0.1, log",
            "batch: 32, 64, 128",
            "dropout: 0 to 0.4",
        ],
        "max_parallel": 8,
        "trials_of": 40,
        "begun": 8,
        "running": 1,
        "waiting": 1,
        "paused": 3,
        "done": 2,
        "failed": 1,
        "milli_gpu_s": 9_720_000,
        "budget_milli_gpu_s": 36_000_000,
        "until_ms": None,
        "best": trials[0],
        # The first was beaten by its own trial.
        "improvements": [
            {"at_ms": TWO + HOUR // 2, "trial": 7, "value": 0.9},
            *(
                {"at_ms": one["best_ms"], "trial": one["number"], "value": one["best"]}
                for one in reversed(trials)
                if one["best"] is not None
            ),
        ],
        "improvements_thinned": False,
        "improvements_begun_late": False,
        "rungs": [{"step": 5, "came": 7, "went_on": 3}, {"step": 15, "came": 3, "went_on": 1}],
        "trials": trials,
        "request": {"roles": [{"milli_gpu": 1000, "count": 1, "command": ["python", "train.py"]}]},
        "steerable": True,
        "simulated": True,
    }

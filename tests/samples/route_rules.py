"""Who passes each route of the API, and what others are answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from service_world import METRICS_TOKEN

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.notifications import confirming
from gpucommons.scheduler.notifications.preferences import About, Choice


@dataclass(frozen=True)
class Rule:
    """How a route is called, and with whose token it answers what."""

    method: str
    path: str
    passes: tuple[str, ...]
    refused: dict[str, int]
    body: Any = None
    content: bytes | None = None
    query: dict[str, Any] = field(default_factory=dict)


#: Of somebody who has yet to confirm an address.
CHOICE = Choice(
    owner=UserName("ann"),
    webhook=frozenset({About.WEEK}),
    url="https://example.org/x",
    address="ann@home.example",
    asked_ms=Millis(1_000_000_000),
)
JOB = {"name": "digits", "roles": [{"command": ["true"]}]}
SWEEP = {"job": JOB, "given": [{"lr": 0.1}]}
PIPELINE = {"name": "nightly", "steps": [{"name": "clean", "job": JOB}]}
ACCURACY = {"metric": {"name": "accuracy", "below": 97}}
SCHEDULE = {"schedule": "0 2 * * *", "triggers": [ACCURACY], "job": JOB}
PROFILE = "/profiles/vision/plain"
LEASE = {"user": "ann", "milli_gpu": 250}
SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#: Of an attempt, and of a token without any right of ours.
NOBODY = {"attempt": 403, "plain-token": 403}
NOT_ATTEMPT = {"ann-token": 403, "root-token": 403, "hub-token": 403, "plain-token": 403}
NOT_OTHERS = NOBODY | {"bob-token": 404, "hub-token": 404}
NOT_MEMBERS = NOT_OTHERS | {"ann-token": 403, "ann-reads": 403}
NOT_ADMIN = NOBODY | {"ann-token": 403, "ada-token": 403, "hub-token": 403, "culler-token": 403}
STEERING = ("ann-token", "ada-token", "root-token")
#: Beside those: teammates, and others to whom it is not there; leads and admins, too.
NOT_STEERING = NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404}
NOT_OWNER = NOT_STEERING | {"ada-token": 403, "root-token": 403}

FOR_PEOPLE = NOBODY | {"hub-token": 403, "culler-token": 403}
NOT_READERS = FOR_PEOPLE | {"ann-reads": 403}
RULES: dict[str, Rule] = {
    "whoami": Rule("GET", "/whoami", ("ann-reads", "hub-token"), NOBODY),
    "pools": Rule("GET", "/pools", ("ann-reads", "hub-token"), NOBODY),
    "growth": Rule("GET", "/growth", ("root-token",), NOT_ADMIN),
    "nodes": Rule("GET", "/nodes", ("ann-reads", "hub-token"), NOBODY),
    "teams": Rule("GET", "/teams", ("ann-reads", "hub-token"), NOBODY),
    "set_node_state": Rule(
        "PUT", "/nodes/n1/state", ("root-token",), NOT_ADMIN, body={"state": "ready"}
    ),
    "notice_node": Rule("PUT", "/nodes/n1/notice", ("root-token",), NOT_ADMIN, body={"in_s": 120}),
    "put_config": Rule("PUT", "/config", ("root-token",), NOT_ADMIN, body={}),
    "check_config": Rule("POST", "/config/check", ("root-token",), NOT_ADMIN, body={}),
    "get_config": Rule("GET", "/config", ("root-token",), NOT_ADMIN),
    "set_quotas": Rule(
        "PUT",
        "/quotas",
        ("root-token",),
        NOT_ADMIN,
        body={"changes": [{"team": "vision", "pool": "gpu", "quota": {}}], "dry_run": True},
    ),
    "replay": Rule("POST", "/replay", ("root-token",), NOT_ADMIN, body={"days": 1}),
    "put_snapshot": Rule(
        "PUT",
        f"/snapshots/{SHA}",
        ("ann-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403},
        content=b"",
    ),
    "submit": Rule(
        "POST", "/jobs", ("ann-token",), NOBODY | {"ann-reads": 403, "hub-token": 403}, body=JOB
    ),
    "environments": Rule(
        "GET",
        "/environments",
        ("ann-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403},
    ),
    "quote_job": Rule(
        "POST", "/quote", ("ann-token",), NOBODY | {"ann-reads": 403, "culler-token": 403}, body=JOB
    ),
    "advise": Rule(
        "POST",
        "/advise",
        ("ann-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403, "culler-token": 403},
        body={
            "network": {"kind": "unknown"},
            "batch": 8,
            "steps": 10,
            "team": "vision",
        },
    ),
    "budgets": Rule("GET", "/budgets", ("ann-reads", "hub-token"), NOBODY),
    "set_budget": Rule(
        "PUT",
        "/budgets/vision",
        ("root-token",),
        NOT_ADMIN,
        body={"budget": {"gpu_hours": 10, "at_full": "warn"}},
    ),
    "utilisation": Rule(
        "GET",
        "/utilisation",
        ("ada-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403},
    ),
    "calibration": Rule("GET", "/calibration", ("ann-reads", "hub-token"), NOBODY),
    "waiting_together": Rule(
        "GET",
        "/advise/together",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "hub-token": 403, "culler-token": 403},
    ),
    "curve_outlook": Rule(
        "GET",
        "/jobs/digits-1/outlook",
        ("ann-reads", "alf-token", "root-token"),
        NOT_OTHERS,
        query={"metric": "loss", "goal": 0.1},
    ),
    "data_advice": Rule(
        "GET",
        "/jobs/digits-1/data",
        ("ann-reads", "alf-token", "root-token"),
        NOT_OTHERS,
    ),
    "choose_loader": Rule(
        "POST",
        "/jobs/digits-1/data",
        STEERING,
        NOT_STEERING | {"ada-reads": 403, "culler-token": 404},
        body={"workers": 4, "prefetch": 2},
    ),
    "job_plan": Rule(
        "GET",
        "/jobs/digits-1/plan",
        ("ann-reads", "alf-token", "root-token"),
        NOT_OTHERS,
    ),
    "jobs": Rule("GET", "/jobs", ("ann-reads", "bob-token"), NOBODY),
    "job": Rule("GET", "/jobs/digits-1", ("ann-reads", "alf-token", "root-token"), NOT_OTHERS),
    "why": Rule("GET", "/jobs/digits-1/why", ("ann-reads", "alf-token", "root-token"), NOT_OTHERS),
    "cancel": Rule(
        "POST",
        "/jobs/digits-1/cancel",
        ("ann-token",),
        NOBODY
        | {
            "ada-reads": 403,
            "ann-reads": 403,
            "alf-token": 403,
            "bob-token": 404,
            "culler-token": 404,
        },
    ),
    "pause": Rule(
        "POST",
        "/jobs/digits-1/pause",
        ("ada-token",),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "resume": Rule(
        "POST",
        "/jobs/paused-1/resume",
        ("root-token",),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "resize_job": Rule(
        "POST",
        "/jobs/paused-1/resize",
        ("root-token",),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
        body={"workers": 1},
    ),
    "again": Rule("POST", "/jobs/digits-1/again", STEERING, NOT_STEERING),
    "schedules": Rule("GET", "/schedules", ("ann-reads", "bob-token"), NOBODY),
    "schedule": Rule(
        "GET",
        "/schedules/ann/nightly",
        ("ann-reads", "alf-token", "root-token"),
        NOT_OTHERS,
    ),
    "put_schedule": Rule(
        "PUT",
        "/schedules/ann/nightly",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "root-token": 403, "hub-token": 403},
        body=SCHEDULE,
    ),
    "profiles": Rule("GET", "/profiles", ("ann-reads", "bob-token"), NOBODY),
    "profile": Rule("GET", PROFILE, ("ann-reads", "alf-token", "root-token"), NOT_OTHERS),
    "put_profile": Rule("PUT", PROFILE, ("ada-token", "root-token"), NOT_MEMBERS, body={}),
    "drop_profile": Rule("DELETE", PROFILE, ("ada-token", "root-token"), NOT_MEMBERS),
    "submit_pipeline": Rule(
        "POST",
        "/pipelines",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "hub-token": 403, "culler-token": 403},
        body=PIPELINE,
    ),
    "pipelines": Rule("GET", "/pipelines", ("ann-reads", "bob-token"), NOBODY),
    "pipeline": Rule(
        "GET",
        "/pipelines/ann/nightly-1",
        ("ann-reads", "alf-token", "root-token"),
        NOT_OTHERS,
    ),
    "retry_pipeline": Rule(
        "POST",
        "/pipelines/ann/nightly-2/retry",
        ("ann-token",),
        NOT_OWNER,
        body={},
    ),
    "cancel_pipeline": Rule(
        "POST",
        "/pipelines/ann/nightly-1/cancel",
        STEERING,
        NOT_STEERING,
        body={},
    ),
    "schedule_times": Rule(
        "GET",
        "/schedule-times",
        ("ann-reads", "bob-token"),
        NOBODY,
        query={"schedule": "0 2 * * *"},
    ),
    "run_schedule": Rule(
        "POST",
        "/schedules/ann/nightly/run",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "ada-token": 403, "root-token": 403, "bob-token": 404},
    ),
    "post_metric": Rule(
        "POST",
        "/schedules/ann/nightly/metrics",
        ("ann-token",),
        NOT_OWNER,
        body={"name": "accuracy", "value": 98},
    ),
    "promote_schedule": Rule(
        "POST",
        "/schedules/ann/nightly/promote",
        (),
        NOT_STEERING,
        body={"job": "nightly-1"},
    ),
    **{
        f"{verb}_schedule": Rule("POST", f"/schedules/ann/nightly/{verb}", STEERING, NOT_STEERING)
        for verb in ("suspend", "resume")
    },
    "drop_schedule": Rule("DELETE", "/schedules/ann/nightly", STEERING, NOT_STEERING),
    "submit_sweep": Rule(
        "POST",
        "/sweeps",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "hub-token": 403},
        body=SWEEP,
    ),
    "sweeps": Rule("GET", "/sweeps", ("ann-reads", "bob-token"), NOBODY),
    "sweep": Rule("GET", "/sweeps/many-1", ("ann-reads", "alf-token", "root-token"), NOT_OTHERS),
    "sweep_figures": Rule(
        "GET",
        "/sweeps/search-1/figures",
        ("ann-reads", "alf-token", "root-token"),
        NOT_OTHERS,
    ),
    "stop_sweep": Rule("POST", "/sweeps/many-1/stop", STEERING, NOT_STEERING),
    "leave_out": Rule(
        "POST", "/sweeps/many-1/leave-out", STEERING, NOT_STEERING, body={"numbers": [1]}
    ),
    "add_to_budget": Rule(
        "POST",
        "/sweeps/search-1/budget",
        STEERING,
        NOT_STEERING,
        body={"trials": 1},
    ),
    "log": Rule(
        "GET", "/jobs/digits-1/log", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}
    ),
    "curve": Rule(
        "GET", "/jobs/digits-1/curve", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}
    ),
    "job_use": Rule(
        "GET", "/jobs/digits-1/use", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}
    ),
    "report_progress": Rule(
        "POST",
        "/attempt/progress",
        ("attempt",),
        NOT_ATTEMPT,
        body={"step": 1},
    ),
    "report_trainer_status": Rule(
        "POST",
        "/attempt/trainer-status",
        ("attempt",),
        NOT_ATTEMPT,
        body={"trainerStatus": {"progressPercentage": 5}},
    ),
    "report_curve": Rule(
        "POST",
        "/attempt/curve",
        ("attempt",),
        NOT_ATTEMPT,
        body={"points": [{"step": 1, "metrics": {"loss": 0.5}}]},
    ),
    "report_checkpoint": Rule(
        "POST",
        "/attempt/checkpoints",
        ("attempt",),
        NOT_ATTEMPT,
        body={"step": 1, "path": "checkpoints/step-1", "size_bytes": 1, "sha256": SHA},
    ),
    "report_finished": Rule("POST", "/attempt/finished", ("attempt",), NOT_ATTEMPT),
    "attempt_orders": Rule("GET", "/attempt/orders", ("attempt",), NOT_ATTEMPT),
    "attempt_inputs": Rule("GET", "/attempt/inputs", ("attempt",), NOT_ATTEMPT),
    "attempt_snapshot": Rule("GET", "/attempt/snapshot", ("attempt",), NOT_ATTEMPT),
    "attempt_uploads": Rule(
        "POST",
        "/attempt/uploads",
        ("attempt",),
        NOT_ATTEMPT,
        body={"folder": "results", "files": [{"path": "a", "size_bytes": 1}]},
    ),
    "report_kept": Rule(
        "POST",
        "/attempt/kept",
        ("attempt",),
        NOT_ATTEMPT,
        body={"files": 0, "size_bytes": 0},
    ),
    "report_tree": Rule("POST", "/attempt/tree", ("attempt",), NOT_ATTEMPT, body={}),
    "attempt_saving": Rule("GET", "/attempt/saving", ("attempt",), NOT_ATTEMPT),
    "results": Rule(
        "GET",
        "/jobs/done-1/results",
        ("ann-token", "ada-token", "root-token"),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "offers": Rule(
        "GET",
        "/offers",
        ("ann-reads", "hub-token", "root-token"),
        NOBODY | {"bob-token": 403, "culler-token": 403},
        query={"user": "ann"},
    ),
    "acquire": Rule(
        "POST",
        "/leases/acquire",
        ("hub-token",),
        NOBODY | {"ann-token": 403, "root-token": 403, "culler-token": 403},
        body=LEASE | {"server_name": "second"},
    ),
    "wait_in_line": Rule(
        "POST",
        "/leases",
        ("ann-token", "hub-token"),
        NOBODY | {"ann-reads": 403, "bob-token": 403, "root-token": 403, "culler-token": 403},
        body=LEASE | {"server_name": "second"},
    ),
    "leases": Rule("GET", "/leases", ("ann-reads", "bob-token", "culler-token"), NOBODY),
    "my_lease": Rule(
        "GET", "/lease", ("ann-reads",), NOBODY | {"bob-token": 404, "hub-token": 403}
    ),
    "lease": Rule(
        "GET",
        "/leases/{lease}",
        ("ann-reads", "alf-token", "hub-token", "culler-token", "root-token"),
        NOBODY | {"bob-token": 404},
    ),
    "why_lease": Rule(
        "GET",
        "/leases/{lease}/why",
        ("ann-reads", "alf-token", "hub-token", "culler-token", "root-token"),
        NOBODY | {"bob-token": 404},
    ),
    "started": Rule(
        "POST",
        "/leases/{lease}/started",
        ("hub-token",),
        NOBODY | {"ann-token": 403, "root-token": 403, "culler-token": 403},
        body={},
    ),
    "end_lease": Rule(
        "POST",
        "/leases/{lease}/end",
        ("culler-token", "hub-token"),
        NOBODY | {"ann-token": 403, "alf-token": 403, "bob-token": 404, "ann-reads": 403},
        body={"why": "stopped"},
    ),
    "keep": Rule(
        "POST",
        "/leases/{lease}/keep",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "culler-token": 403},
        body={},
    ),
    "drop": Rule(
        "POST",
        "/leases/{lease}/drop",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "hub-token": 403},
    ),
    "hibernate": Rule(
        "POST",
        "/leases/{lease}/hibernate",
        (),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            # They may, and its server has not said that it can.
            "ann-token": 409,
            "root-token": 409,
            "culler-token": 409,
        },
        body={},
    ),
    "park": Rule(
        "POST",
        "/leases/{lease}/park",
        (),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            # They may, and its server has not said that it can.
            "ann-token": 409,
            "root-token": 409,
            "culler-token": 409,
        },
        body={},
    ),
    "report_parked": Rule(
        "PUT",
        "/leases/{lease}/parked",
        ("ann-token",),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "ada-token": 403,
            "root-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            "culler-token": 403,
        },
        body={"host_mib": 512},
    ),
    "unpark": Rule(
        "POST",
        "/leases/{lease}/unpark",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "culler-token": 403},
        body={},
    ),
    "choose_on_idle": Rule(
        "PUT",
        "/leases/{lease}/on-idle",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "culler-token": 403},
        body={"on_idle": "cull"},
    ),
    "reclaim": Rule(
        "POST",
        "/leases/{lease}/reclaim",
        ("ada-token",),
        NOBODY
        | {
            "ada-reads": 403,
            "ann-token": 403,
            "alf-token": 403,
            "bob-token": 404,
            "culler-token": 403,
        },
        body={"force": True, "reason": "needed"},
    ),
    "resize": Rule(
        "POST",
        "/leases/{lease}/resize",
        ("root-token",),
        NOBODY
        | {
            "ann-token": 403,
            "ada-token": 403,
            "alf-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            "culler-token": 403,
        },
        body={"memory_mib": 10_000},
    ),
    "report_activity": Rule(
        "PUT",
        "/leases/{lease}/activity",
        ("ann-token",),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "root-token": 403,
            "bob-token": 404,
            "hub-token": 403,
        },
        body={},
    ),
    "report_kept_kernels": Rule(
        "PUT",
        "/leases/{lease}/kept",
        ("ann-token",),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "ada-token": 403,
            "root-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            "culler-token": 403,
        },
        body={"kernels": 2, "kernel_bytes": 1 << 30, "until_ms": 1_800_000_000_000},
    ),
    "activities": Rule(
        "GET",
        "/activities",
        ("culler-token", "root-token", "ada-token"),
        NOBODY | {"ann-token": 403, "hub-token": 403},
    ),
    "activity": Rule(
        "GET",
        "/leases/{lease}/activity",
        ("culler-token", "root-token", "ada-token"),
        NOBODY | {"ann-token": 403, "hub-token": 403, "bob-token": 404},
    ),
    "report_idle": Rule(
        "PUT",
        "/leases/{lease}/idle",
        ("culler-token",),
        NOBODY | {"ann-token": 403, "hub-token": 403, "root-token": 403},
        body={},
    ),
    "events": Rule("GET", "/events", ("ann-reads", "bob-token"), NOBODY),
    "notifications": Rule("GET", "/notifications", ("ann-reads", "root-token"), FOR_PEOPLE),
    "notifications_week": Rule("GET", "/notifications/week", ("ann-reads",), FOR_PEOPLE),
    "set_notifications": Rule("PUT", "/notifications", ("ann-token",), NOT_READERS, body={}),
    "confirm_address": Rule(
        "POST",
        "/notifications/confirm",
        ("ann-token",),
        NOT_READERS,
        body={"code": confirming.code(CHOICE, "")},
    ),
    "forget_user": Rule("POST", "/users/gone/forget", ("root-token",), NOT_ADMIN),
    "test_notifications": Rule("POST", "/notifications/test", ("ann-token",), NOT_READERS),
    "report": Rule(
        "GET", "/report", ("ann-reads", "bob-token"), NOBODY, query={"from_ms": 0, "to_ms": 1}
    ),
    "metrics": Rule(
        "GET",
        "/metrics",
        ("root-token", "prometheus-token", METRICS_TOKEN),
        NOBODY | {"ann-token": 403, "hub-token": 403},
    ),
}

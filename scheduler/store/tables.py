"""The tables of the SQL store. Documents hold the values; columns beside them exist to be searched.

A change here needs a migration in ``migrations/versions``; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

#: SQLite numbers rows by itself only in a column of exactly this type.
Serial = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

#: One row: who leads, and the counters that only the leader moves.
leader = Table(
    "leader",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("last_event", BigInteger, nullable=False),
    Column("now_ms", BigInteger, nullable=False),
    #: Counts cycles that wrote something.
    Column("commits", BigInteger, nullable=False, server_default="0"),
)

intents = Table(
    "intents",
    metadata,
    #: Order of arrival.
    Column("arrival", Serial, primary_key=True, autoincrement=True),
    Column("intent_id", Text, nullable=False, unique=True),
    Column("by", Text, nullable=False),
    Column("idempotency_key", Text),
    Column("at_ms", BigInteger, nullable=False),
    #: Of a submit: the workload that it creates.
    Column("workload_id", Text),
    #: Of a job's submit: whose job it is.
    Column("job_owner", Text),
    Column("job_bytes", Integer),
    #: What that job is part of.
    Column("part_of", Text),
    Column("document", Text, nullable=False),
    Column("verdict", Text),
    UniqueConstraint("by", "idempotency_key", name="one_answer_per_key"),
    Index(
        "intents_pending",
        "arrival",
        sqlite_where=text("verdict IS NULL"),
        postgresql_where=text("verdict IS NULL"),
    ),
    Index(
        "intents_answered",
        "at_ms",
        sqlite_where=text("verdict IS NOT NULL"),
        postgresql_where=text("verdict IS NOT NULL"),
    ),
    Index("intents_of_workload", "workload_id"),
    Index("intents_of_job_owner", "job_owner", "at_ms"),
)

workloads = Table(
    "workloads",
    metadata,
    Column("workload_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("live", Boolean, nullable=False),
    Column("team", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("submitted_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    #: What was asked.
    Column("spec", Text, nullable=False),
    #: Where it stands: everything else, attempts included.
    Column("standing", Text, nullable=False),
    #: Id of the sweep, map, schedule or pipeline that it is part of.
    Column("part_of", Text),
    #: What it runs from, as its spec says.
    Column("snapshot", Text),
    #: The commit that wrote this row.
    Column("written", BigInteger, nullable=False, server_default="0"),
    Index("workloads_by_age", "submitted_ms", "workload_id"),
    Index("workloads_live", "live", "kind"),
    Index("workloads_of_team", "team", "submitted_ms"),
    Index("workloads_of_owner", "owner", "submitted_ms"),
    Index("workloads_live_of_owner", "owner", "live"),
    Index("workloads_by_name", "name", "team"),
    Index("workloads_ended", "ended_ms"),
    Index("workloads_of_parent", "part_of", "submitted_ms"),
    Index("workloads_written", "written"),
    Index("workloads_of_owner_from", "owner", "snapshot"),
    Index("workloads_of_team_from", "team", "snapshot"),
)

#: Who brought the bytes of a snapshot.
uploads = Table(
    "uploads",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("by", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Index("uploads_by_age", "at_ms"),
)

#: Teams, pools, nodes, and what there is one of (blocks, policy, usage).
documents = Table(
    "documents",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("document", Text, nullable=False),
    Column("written", BigInteger, nullable=False, server_default="0"),
    Index("documents_written", "written"),
)

events = Table(
    "events",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("workload_id", Text),
    #: Who may see it, as ``rules.audience`` has it.
    Column("audience", Text, nullable=False, server_default=""),
    Column("document", Text, nullable=False),
    Index("events_of_workload", "workload_id", "number"),
    Index("events_of_audience", "audience", "number"),
    Index("events_of_kind", "kind", "number"),
    Index("events_by_time", "at_ms"),
)

ledger = Table(
    "ledger",
    metadata,
    Column("workload_id", Text, primary_key=True),
    Column("minute_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("team", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("hold_class", Text, nullable=False),
    Column("held_milli_gpu_ms", BigInteger, nullable=False),
    Column("surplus_milli_gpu_ms", BigInteger, nullable=False, server_default="0"),
    Column("lost_milli_gpu_ms", BigInteger, nullable=False),
    Column("parked_milli_gpu_ms", BigInteger, nullable=False, server_default="0"),
    Column("idle", Boolean, nullable=False),
    Column("compute_percent_mean", Integer),
    Column("memory_used_mib_max", BigInteger),
    #: The value of the label `project`; empty without.
    Column("project", Text, nullable=False, server_default=""),
    Index("ledger_by_minute", "minute_ms", "team"),
)

points = Table(
    "curve_points",
    metadata,
    Column("workload_id", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("attempt_number", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("unit", Text, nullable=False, server_default=""),
)

#: Windows that were forecast; the start is filled in when it is known.
estimates = Table(
    "estimates",
    metadata,
    Column("workload_id", Text, primary_key=True),
    Column("made_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("wait_class", Text, nullable=False),
    Column("document", Text, nullable=False),
    Index("estimates_by_time", "made_ms"),
)

#: The last number given out for each readable name's base.
names = Table(
    "names",
    metadata,
    Column("team", Text, primary_key=True),
    Column("base", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

#: How large pools (team "") and quotas were, and what was lent of them.
quota_minutes = Table(
    "quota_minutes",
    metadata,
    Column("minute_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("pool", Text, primary_key=True),
    Column("team", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("lent", BigInteger, nullable=False),
)

#: What advice offered: a job that takes one keeps it in its spec.
offered_plans = Table(
    "offered_plans",
    metadata,
    Column("plan_id", Text, primary_key=True),
    Column("made_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Index("offered_plans_by_age", "made_ms"),
)

#: Jobs that are over, by the plan that each took.
judged_runs = Table(
    "judged_runs",
    metadata,
    Column("workload_id", Text, primary_key=True),
    Column("ended_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Index("judged_runs_by_end", "ended_ms"),
)

#: Forms of teams that jobs are started with.
profiles = Table(
    "profiles",
    metadata,
    Column("team", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("document", Text, nullable=False),
)

#: Jobs that start again and again.
schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("team", Text, nullable=False),
    #: What its owner wrote.
    Column("document", Text, nullable=False),
    #: What became of its times; the leader alone writes it.
    Column("standing", Text, nullable=False),
    #: When it is to be looked at; empty while nothing can be due.
    Column("next_ms", BigInteger),
    UniqueConstraint("owner", "name", name="one_schedule_per_name"),
    Index("schedules_by_next", "next_ms"),
)

#: What users want to be told, and how.
notification_choices = Table(
    "notification_choices",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("document", Text, nullable=False),
)

#: Messages to users, those that wait and those that are settled.
notifications = Table(
    "notifications",
    metadata,
    Column("notification_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("fate", Text, nullable=False),
    Column("made_ms", BigInteger, nullable=False),
    #: When it is to be tried; empty once it is settled.
    Column("next_ms", BigInteger),
    Column("document", Text, nullable=False),
    Index("notifications_by_next", "next_ms"),
    Index("notifications_by_owner", "owner", "made_ms"),
)

#: How far the leader has read what there is to tell: one row.
notification_reading = Table(
    "notification_reading",
    metadata,
    Column("reader", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)

#: Many jobs over a search space or a list.
sweeps = Table(
    "sweeps",
    metadata,
    Column("sweep_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("team", Text, nullable=False, server_default=""),
    Column("name", Text, nullable=False, server_default=""),
    Column("made_ms", BigInteger, nullable=False),
    #: When it was over; empty while it goes on.
    Column("ended_ms", BigInteger),
    #: Whether the leader is to look at it.
    Column("live", Boolean, nullable=False),
    #: What its owner wrote.
    Column("document", Text, nullable=False),
    #: Where it stands; the leader alone writes it.
    Column("standing", Text, nullable=False),
    Index("sweeps_live", "live", "made_ms"),
    Index("sweeps_by_name", "name"),
)

#: The jobs of each; the leader alone writes them.
trials = Table(
    "trials",
    metadata,
    Column("sweep_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)

pipelines = Table(
    "pipelines",
    metadata,
    Column("pipeline_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("team", Text, nullable=False),
    #: What its owner wrote.
    Column("document", Text, nullable=False),
    #: How far its steps are; the leader alone writes it.
    Column("standing", Text, nullable=False),
    #: When it is to be looked at; empty while nothing can change.
    Column("next_ms", BigInteger),
    UniqueConstraint("owner", "name", name="one_pipeline_per_name"),
    Index("pipelines_by_next", "next_ms"),
)

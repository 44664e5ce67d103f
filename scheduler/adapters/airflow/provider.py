"""What Airflow's entry point ``apache_airflow_provider`` asks for: it loads nothing else of ours."""

from __future__ import annotations

from typing import Any

_HERE = "gpucommons.scheduler.adapters.airflow"


def get_provider_info() -> dict[str, Any]:
    """The connection type that Airflow's pages offer, with the fields of its form."""
    return {
        "package-name": "gpucommons",
        "name": "GPU Commons",
        "description": "Tasks that run as jobs of GPU Commons.",
        "connection-types": [
            {
                "connection-type": "gpucommons",
                "hook-name": "GPU Commons",
                "hook-class-name": f"{_HERE}.hook.GpuCommonsHook",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "port", "extra"],
                    "relabeling": {"host": "Address", "password": "Token"},
                    "placeholders": {"host": "http://HOST:PORT or unix:/PATH"},
                },
            }
        ],
    }

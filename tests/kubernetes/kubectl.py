"""The real kubectl, as people use it."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.toolchain import toolchain


@dataclass(frozen=True)
class Kubectl:
    """kubectl with one kubeconfig, for one namespace and perhaps in somebody's name."""

    kubeconfig: Path
    namespace: str = "default"
    user: str | None = None

    def try_(self, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run it, whatever comes out."""
        command = [str(toolchain.find("kubectl")), f"--kubeconfig={self.kubeconfig}"]
        command += [f"--namespace={self.namespace}"]
        if self.user is not None:
            command += [f"--as={self.user}", "--as-group=system:authenticated"]
        return subprocess.run(
            [*command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=320,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run it; anything but success fails the test."""
        done = self.try_(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, stdin: str | None = None) -> str:
        """Run it, and return with what it was refused."""
        done = self.try_(*arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def apply(self, *documents: Mapping[str, Any]) -> str:
        """``kubectl apply -f -``."""
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def get(self, *arguments: str) -> dict[str, Any]:
        """``kubectl get … -o json``."""
        found: dict[str, Any] = json.loads(self("get", *arguments, "-o", "json"))
        return found

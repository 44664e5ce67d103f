"""The addresses of a cluster with real nodes, apart from those of every other on this machine."""

import ipaddress
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.cluster.remains import bridge_name

NUMBER = "network-number"


@dataclass(frozen=True, kw_only=True)
class Network:
    """Pods and nodes live on one bridge; Services have a range of their own."""

    number: int
    bridge: str

    @property
    def pods(self) -> str:
        """The subnet of pods and nodes."""
        return f"10.213.{self.number}.0/24"

    @property
    def services(self) -> str:
        """The range of cluster addresses of Services."""
        return f"10.214.{self.number}.0/24"

    @property
    def gateway(self) -> str:
        """The bridge's own address, where the cluster's DNS answers."""
        return f"10.213.{self.number}.1"

    def node_address(self, index: int) -> str:
        """The address of a node; the kubelet refuses one of loopback."""
        return f"10.213.{self.number}.{2 + index}"

    def pod_range(self, index: int) -> tuple[str, str]:
        """The first and the last address of a node's pods."""
        start = 20 + 70 * index
        return f"10.213.{self.number}.{start}", f"10.213.{self.number}.{start + 69}"


def choose(folder: Path, siblings: Collection[Path]) -> Network:
    """A network that no other cluster has; call it while no other cluster is being made."""
    taken = {int(path.read_text()) for path in siblings if path.exists()}
    number = next(one for one in range(256) if one not in taken)
    (folder / NUMBER).write_text(str(number))
    return Network(number=number, bridge=bridge_name(folder))


def make_bridge(network: Network, nodes: int) -> None:
    """The bridge with the gateway's and the nodes' addresses; needs root."""
    ip("link", "add", network.bridge, "type", "bridge")
    ip("addr", "add", f"{network.gateway}/24", "dev", network.bridge)
    for index in range(nodes):
        add_address(network, network.node_address(index))
    ip("link", "set", network.bridge, "up")


def add_address(network: Network, address: str) -> None:
    """Let this machine answer at one more address."""
    ip("addr", "add", f"{ipaddress.ip_address(address)}/32", "dev", network.bridge)


def remove_address(network: Network, address: str) -> None:
    """Stop answering there."""
    ip("addr", "del", f"{ipaddress.ip_address(address)}/32", "dev", network.bridge)


def ip(*arguments: str) -> None:
    """Run `ip`; its error names the arguments."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

"""The command line of the node agent."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from gpucommons.gpu.clouds.notice_source import LINK_LOCAL, NAMES, host_and_port
from gpucommons.gpu.connections.addresses import is_loopback
from gpucommons.gpu.devices.topology import SimulatedTopology
from gpucommons.gpu.extras import missing
from gpucommons.gpu.node.fake import DEFAULT_DEVICES, DEFAULT_KIND, MAX_DEVICES
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER


def build_parser() -> argparse.ArgumentParser:
    """The command line of ``python -m gpucommons.gpu.agent``."""
    parser = argparse.ArgumentParser(
        prog="python -m gpucommons.gpu.agent",
        description="The node agent, one per machine, outside every slice.",
    )
    _add_devices(parser)
    _add_limits(parser)
    _add_door(parser)
    _add_cloud(parser)
    _add_kubernetes(parser)
    return parser


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line; ends the process with a message when it cannot be read."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.door is not None and options.door_token_file is None:
        parser.error("--door needs --door-token-file: nobody may pass without a token.")
    if options.door is not None and options.door_cert_file is None and not options.door_in_clear:
        host = options.door[0]
        if not is_loopback(host):
            parser.error(
                f"--door {host} would let the token cross the network in clear: give "
                "--door-cert-file and --door-key-file, or say --door-in-clear where something else "
                "encrypts that network."
            )
    if (options.door_cert_file is None) != (options.door_key_file is None):
        parser.error("--door-cert-file and --door-key-file belong together.")
    if options.hibernation is not None and not options.kubernetes:
        parser.error("--hibernation is for pods: it needs --kubernetes.")
    if options.kubernetes and find_spec("grpc") is None:
        parser.error(f"--kubernetes: {missing('grpcio', 'kubernetes')}")
    return options


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", "--state", type=Path, required=True, help="folder of sockets and state"
    )
    parser.add_argument(
        "--simulate",
        type=_count,
        default=0,
        metavar="N",
        help=f"simulated GPUs where NVML finds no real one: 0 to {MAX_DEVICES}, "
        f"or auto = {DEFAULT_DEVICES}",
    )
    parser.add_argument(
        "--simulated-kind",
        default=DEFAULT_KIND,
        metavar="KIND",
        help="model and GiB of a simulated GPU (default: %(default)s)",
    )
    parser.add_argument(
        "--simulated-topology",
        choices=[one.value for one in SimulatedTopology],
        default=SimulatedTopology.UNKNOWN.value,
        help="what simulated GPUs say of their links: pairs = by NVLink in pairs, on two sockets; "
        "all = by NVLink; unknown = nothing (default)",
    )
    parser.add_argument(
        "--ignore-real", action="store_true", help="simulate even where NVML finds a real GPU"
    )
    parser.add_argument("--node", default=None, help="name of this node (default: its host name)")
    parser.add_argument(
        "--metrics-port",
        type=int,
        default=None,
        metavar="PORT",
        help="serve Prometheus metrics on this port of 127.0.0.1 too, to whoever has the token in "
        "metrics-token; metrics.sock in the folder needs none",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only-watch",
        action="store_true",
        help="warn nobody and stop nobody who uses more memory than their slice has",
    )
    parser.add_argument(
        "--devices-confined",
        action="store_true",
        help="everything here runs in containers that can open only the device files of their own "
        "slice; said only where it is true, it makes whole cards and instances `hardware`",
    )
    parser.add_argument(
        "--cgroup-mount",
        type=Path,
        default=None,
        metavar="DIR",
        help="where cgroup v2 is mounted (default: found)",
    )


def _add_door(parser: argparse.ArgumentParser) -> None:
    door = parser.add_argument_group("for a scheduler on another machine")
    door.add_argument(
        "--door",
        type=_address,
        default=None,
        metavar="HOST:PORT",
        help="answer the scheduler's requests over HTTP here, and GET /metrics and /healthz",
    )
    door.add_argument(
        "--door-token-file",
        type=Path,
        default=None,
        metavar="FILE",
        help="the token that callers send: Authorization: Bearer TOKEN",
    )
    door.add_argument(
        "--metrics-token-file",
        type=Path,
        default=None,
        metavar="FILE",
        help="a token that opens /metrics there and nothing else",
    )
    door.add_argument(
        "--door-cert-file", type=Path, default=None, metavar="FILE", help="certificate, for HTTPS"
    )
    door.add_argument("--door-key-file", type=Path, default=None, metavar="FILE", help="its key")
    door.add_argument(
        "--door-in-clear",
        action="store_true",
        help="plain HTTP also where other machines reach it",
    )


def _add_cloud(parser: argparse.ArgumentParser) -> None:
    cloud = parser.add_argument_group("on a machine of a cloud")
    cloud.add_argument(
        "--cloud",
        choices=NAMES,
        default=None,
        help="ask this cloud's metadata service whether it takes the machine back (default: ask nobody)",
    )
    cloud.add_argument(
        "--cloud-metadata",
        type=_metadata,
        default=LINK_LOCAL,
        metavar="URL",
        help="where that service answers: a link-local address (default: %(default)s)",
    )


def _metadata(url: str) -> str:
    try:
        host_and_port(url)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return url


def _add_kubernetes(parser: argparse.ArgumentParser) -> None:
    pods = parser.add_argument_group("on Kubernetes")
    pods.add_argument(
        "--kubernetes",
        action="store_true",
        help="give slices to pods: as the driver of their volumes, with the kubelet's word for who "
        "holds which GPU; means --devices-confined; --dir must lie below the kubelet's folder",
    )
    pods.add_argument(
        "--kubelet-dir",
        type=Path,
        default=Path("/var/lib/kubelet"),
        metavar="DIR",
        help="the kubelet's folder, mounted here at the same path (default: %(default)s)",
    )
    pods.add_argument(
        "--csi-driver",
        default=CSI_DRIVER,
        metavar="NAME",
        help="name of the CSIDriver object (default: %(default)s)",
    )
    pods.add_argument(
        "--pod-namespaces",
        type=_namespaces,
        default=None,
        metavar="NAME,...",
        help="give slices only to pods of these namespaces, where hub and scheduler alone make pods "
        "with GPUs (default: to pods of all)",
    )
    _add_saving_of_pods(pods)
    pods.add_argument(
        "--cdi-dir",
        type=Path,
        default=Path("/var/run/cdi"),
        metavar="DIR",
        help="where the container runtime looks for devices (default: %(default)s)",
    )


def _add_saving_of_pods(pods: argparse._ArgumentGroup) -> None:
    pods.add_argument(
        "--hibernation",
        type=Path,
        default=None,
        metavar="DIR",
        help="let pods that ask for gpucommons.io/hibernate save their processes, with the CRIU that is "
        "unpacked in DIR; only where a self-test with it passes",
    )
    pods.add_argument(
        "--apparmor-allows-mounts",
        action="store_true",
        help="pods that save their processes run under an AppArmor profile that lets them mount",
    )


def _namespaces(text: str) -> frozenset[str] | None:
    return frozenset(filter(None, text.split(","))) or None


def _count(text: str) -> int:
    return DEFAULT_DEVICES if text == "auto" else int(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        message = f"{text!r} is no address: write HOST:PORT"
        raise argparse.ArgumentTypeError(message)
    return host.strip("[]"), int(port)

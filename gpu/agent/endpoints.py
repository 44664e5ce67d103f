"""What the agent serves besides its loop, each in threads of its own, each through the control socket.

The loop is one thread that looks once a second; a kubelet or a scheduler that keeps a connection
waiting must not stop it.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from gpucommons.gpu.client.wire import Json
from gpucommons.gpu.connections.unix_sockets import connect
from gpucommons.gpu.errors import AgentUnavailable

logger = logging.getLogger("gpucommons.gpu.agent")

_TIMEOUT_S = 10.0


class CannotServe(Exception):
    """A port, a token or a socket that the command line names cannot be used."""


class Endpoints:
    """Those that the command line asks for: kubelet, hibernation, HTTP API; for as long as the block lasts."""

    def __init__(self, options: argparse.Namespace, node: str) -> None:
        self._options = options
        self._node = node
        self._stack = ExitStack()

    def __enter__(self) -> Endpoints:
        """Start them.

        Raises
        ------
        CannotServe
            When one cannot be started; then none is.
        """
        try:
            others: Mapping[str, Callable[[], Json]] = {}
            if self._options.kubernetes:
                others = {"held": self._serve_kubelet()}
            if self._options.hibernation is not None:
                self._offer_hibernation()
            if self._options.door is not None:
                self._serve_http(others)
        except (ValueError, OSError, RuntimeError) as error:
            self._stack.close()
            raise CannotServe(str(error)) from error
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stack.close()

    def _serve_kubelet(self) -> Callable[[], Json]:
        from gpucommons.gpu.client.agent_client import AgentClient  # noqa: PLC0415 - nine MiB of HTTP and TLS
        from gpucommons.gpu.kubelet.node import (  # noqa: PLC0415 - gRPC, which nobody else needs
            Kubelet,
            KubeletSettings,
        )

        folder: Path = self._options.dir.resolve()
        settings = KubeletSettings(
            kubelet=self._options.kubelet_dir,
            driver=self._options.csi_driver,
            node=self._node,
            folder=folder,
            namespaces=self._options.pod_namespaces,
        )
        kubelet = Kubelet(settings, AgentClient(folder / "control.sock", timeout_s=_TIMEOUT_S))
        self._stack.callback(kubelet.close)
        return kubelet.pod_resources.held

    def _offer_hibernation(self) -> None:
        from gpucommons.gpu.agent.hibernation import (  # noqa: PLC0415 - few nodes offer it
            HibernationOffer,
            Preparation,
            try_as_nobody,
        )
        from gpucommons.gpu.hibernation import containers  # noqa: PLC0415 - as above
        from gpucommons.gpu.kubelet.device_plugin import DevicePlugin, Offer  # noqa: PLC0415 - gRPC

        options = self._options

        def offered(ready: Callable[[], None]) -> DevicePlugin:
            offer = Offer(
                resource=containers.RESOURCE,
                device=containers.DEVICE,
                endpoint="gpucommons-hibernate.sock",
                ready=ready,
            )
            return DevicePlugin(options.kubelet_dir, offer)

        preparation = Preparation(
            criu=options.hibernation,
            kubelet=options.kubelet_dir,
            devices=options.cdi_dir,
            folder=options.dir.resolve(),
            mounts_allowed=options.apparmor_allows_mounts,
        )
        made = HibernationOffer(preparation, offer=offered, try_out=try_as_nobody)
        self._stack.callback(made.close)

    def _serve_http(self, others: Mapping[str, Callable[[], Json]]) -> None:
        # Nine MiB of HTTP and TLS, which an agent without it does without.
        from gpucommons.gpu.agent.http_api.http_server import HttpApi  # noqa: PLC0415 - see above
        from gpucommons.gpu.agent.http_api.settings import HttpApiSettings, Inside  # noqa: PLC0415 - see above

        host, port = self._options.door
        settings = HttpApiSettings(
            host=host,
            port=port,
            token_file=self._options.door_token_file,
            metrics_token_file=self._options.metrics_token_file,
            cert_file=self._options.door_cert_file,
            key_file=self._options.door_key_file,
        )
        folder: Path = self._options.dir
        served = HttpApi(
            settings,
            Inside(
                ask=_asker(folder / "control.sock"),
                metrics=_metrics(folder / "metrics.sock"),
                others=others,
            ),
        )
        self._stack.callback(served.close)
        scheme = "http" if settings.cert_file is None else "https"
        logger.info("HTTP API: %s://%s:%d", scheme, host, served.port)


def _asker(control: Path) -> Callable[[bytes], bytes]:
    from gpucommons.gpu.client.agent_transports import SocketTransport  # noqa: PLC0415 - see _serve_http

    transport = SocketTransport(path=control)

    def ask(line: bytes) -> bytes:
        try:
            return transport.ask(line, _TIMEOUT_S)
        except OSError as error:
            raise AgentUnavailable(_busy(error)) from error

    return ask


def _metrics(path: Path) -> Callable[[], bytes]:
    def page() -> bytes:
        received = bytearray()
        try:
            with connect(path, timeout_s=_TIMEOUT_S) as connection:
                connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                while chunk := connection.recv(1 << 16):
                    received += chunk
        except OSError as error:
            raise AgentUnavailable(_busy(error)) from error
        return bytes(received.partition(b"\r\n\r\n")[2])

    return page


def _busy(error: OSError) -> str:
    return f"The node agent does not answer at its own socket ({error}): it may be starting, or ending."

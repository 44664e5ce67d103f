"""Cluster addresses of Services on a machine without iptables and nft: what kube-proxy would do.

It watches Services and EndpointSlices, lets the bridge answer at every cluster address, and passes
TCP connections on to a ready endpoint, in turns. The `kubernetes` Service leads to the API server.
"""

import argparse
import asyncio
import contextlib
import itertools
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.kubernetes.api import api_client
from tests.kubernetes.cluster.network import Network, add_address, remove_address

Address = tuple[str, int]
#: What a watch says first: forget all, the list of what there is follows.
ANEW = "ANEW"


@dataclass(frozen=True, kw_only=True)
class Front:
    """One port of one Service, where it answers and what its endpoints call the port."""

    address: Address
    service: tuple[str, str]
    port_name: str


class ServiceProxy:
    """Keeps the listening sockets in step with what the API server says."""

    def __init__(self, network: Network, apiserver: Address) -> None:
        self._network = network
        self._apiserver = apiserver
        self._fronts: dict[Address, Front] = {}
        self._servers: dict[Address, asyncio.Server] = {}
        self._slices: dict[tuple[str, str], Any] = {}
        self._services: dict[tuple[str, str], Any] = {}
        self._turn = itertools.count()

    def saw_service(self, kind: str, service: Any) -> None:
        """A Service came, changed or went."""
        _keep(self._services, kind, service)

    def saw_slice(self, kind: str, endpoint_slice: Any) -> None:
        """Endpoints of a Service came, changed or went."""
        _keep(self._slices, kind, endpoint_slice)

    async def settle(self) -> None:
        """Listen where a Service answers and nowhere else."""
        wanted = {front.address: front for front in self._wanted()}
        for address in set(self._servers) - set(wanted):
            self._servers.pop(address).close()
            if not any(one[0] == address[0] for one in wanted):
                with contextlib.suppress(subprocess.CalledProcessError):
                    remove_address(self._network, address[0])
        self._fronts = wanted
        for address in set(wanted) - set(self._servers):
            with contextlib.suppress(subprocess.CalledProcessError):  # another port has it already
                add_address(self._network, address[0])
            self._servers[address] = await asyncio.start_server(self._passer(address), *address)

    def _wanted(self) -> list[Front]:
        return [
            Front(
                address=(service.spec.cluster_ip, port.port),
                service=key,
                port_name=port.name or "",
            )
            for key, service in self._services.items()
            for port in service.spec.ports or ()
            if service.spec.cluster_ip not in (None, "", "None") and port.protocol == "TCP"
        ]

    def _target(self, front: Front) -> Address | None:
        if front.service == ("default", "kubernetes"):
            return self._apiserver
        ready = [
            (address, port.port)
            for one in self._slices.values()
            if one.metadata.namespace == front.service[0]
            and (one.metadata.labels or {}).get("kubernetes.io/service-name") == front.service[1]
            for port in one.ports or ()
            if (port.name or "") == front.port_name
            for endpoint in one.endpoints or ()
            if endpoint.conditions.ready
            for address in endpoint.addresses
        ]
        return ready[next(self._turn) % len(ready)] if ready else None

    def _passer(self, address: Address) -> Callable[..., Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = self._target(self._fronts[address])
            try:
                if target is not None:
                    inner_reader, inner_writer = await asyncio.open_connection(*target)
                    await asyncio.gather(
                        _pass_on(reader, inner_writer), _pass_on(inner_reader, writer)
                    )
            except OSError:  # a refused connection ends like one without an endpoint
                pass
            finally:
                writer.close()

        return serve


def _keep(known: dict[tuple[str, str], Any], kind: str, item: Any) -> None:
    if kind == ANEW:
        known.clear()
        return
    key = (item.metadata.namespace, item.metadata.name)
    if kind == "DELETED":
        known.pop(key, None)
    else:
        known[key] = item


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        with contextlib.suppress(OSError):
            writer.write_eof() if writer.can_write_eof() else writer.close()


def _follow(listing: Callable[..., Any], tell: Callable[[str, Any], None]) -> None:
    """Watch for ever, anew from the start after each break."""
    while True:
        tell(ANEW, None)
        with contextlib.suppress(ApiException, HTTPError, OSError):
            for event in watch.Watch().stream(listing, timeout_seconds=300):
                tell(event["type"], event["object"])
        time.sleep(0.2)


async def run(kubeconfig: Path, network: Network, apiserver: Address) -> None:
    """Watch and serve until ended."""
    proxy = ServiceProxy(network, apiserver)
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    api = api_client(kubeconfig)
    core, discovery = client.CoreV1Api(api), client.DiscoveryV1Api(api)

    def telling(see: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
        def tell(kind: str, item: Any) -> None:
            loop.call_soon_threadsafe(lambda: (see(kind, item), changed.set()))

        return tell

    for listing, see in (
        (core.list_service_for_all_namespaces, proxy.saw_service),
        (discovery.list_endpoint_slice_for_all_namespaces, proxy.saw_slice),
    ):
        threading.Thread(target=_follow, args=(listing, telling(see)), daemon=True).start()
    while True:
        await changed.wait()
        changed.clear()
        await proxy.settle()


def main() -> None:
    """Run for the cluster that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--bridge", required=True)
    parser.add_argument("--network-number", type=int, required=True)
    parser.add_argument("--apiserver-port", type=int, required=True)
    arguments = parser.parse_args()
    network = Network(number=arguments.network_number, bridge=arguments.bridge)
    asyncio.run(run(arguments.kubeconfig, network, ("127.0.0.1", arguments.apiserver_port)))


if __name__ == "__main__":
    main()

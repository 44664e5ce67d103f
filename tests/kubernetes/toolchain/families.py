"""The families of programs that the tests run, each pinned by a go.mod of its own.

Their dependencies disagree, hence one module per family. The order is the order of building:
what most tests wait for comes first.
"""

from dataclasses import dataclass

KUBERNETES_VERSION = "1.36.2"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One program of a family."""

    name: str
    package: str
    #: Arguments that make it print its version; empty: an installed one is never taken.
    version_arguments: tuple[str, ...] = ("--version",)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Programs that are built from one go.mod."""

    name: str
    version: str
    tools: tuple[Tool, ...]
    #: An installed program must agree in the minor version too, not only in the major.
    same_minor: bool = False
    tags: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    #: Files of a module, by patterns, that lie beside the programs: what they need of a cluster.
    module_files: tuple[str, ...] = ()
    module: str = ""

    def flags(self) -> list[str]:
        """The flags of `go build` that decide what comes out."""
        link = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in self.stamps)])
        return [*(["-tags", " ".join(self.tags)] if self.tags else []), "-ldflags", link]


def _kubernetes(*names: str, version_arguments: tuple[str, ...] = ("--version",)) -> Family:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return Family(
        name="kubernetes",
        version=KUBERNETES_VERSION,
        same_minor=True,
        tools=tuple(
            Tool(
                name=name,
                package=f"k8s.io/kubernetes/cmd/{name}",
                version_arguments=version_arguments,
            )
            for name in names
        ),
        # Unstamped, the server calls itself v0.0.0-master and clients refuse it.
        stamps=tuple(
            f"{module}.{variable}={value}"
            for module in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for variable, value in (
                ("gitVersion", f"v{KUBERNETES_VERSION}"),
                ("gitMajor", major),
                ("gitMinor", minor),
            )
        ),
        environment=(("CGO_ENABLED", "0"),),
    )


def _one(name: str, package: str, version: str, *arguments: str) -> Family:
    tool = Tool(name=name, package=package, version_arguments=arguments or ("--version",))
    return Family(name=name, version=version, tools=(tool,), environment=(("CGO_ENABLED", "0"),))


_KARPENTER = "sigs.k8s.io/karpenter"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"

FAMILIES: tuple[Family, ...] = (
    _one("etcd", "go.etcd.io/etcd/server/v3", "3.6.6"),
    _kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    _kubernetes("kubectl", version_arguments=("version", "--client")),
    _one("kwok", "sigs.k8s.io/kwok/cmd/kwok", "0.8.0"),
    Family(
        name="containerd",
        version="2.4.2",
        tools=tuple(
            Tool(name=name, package=f"{_CONTAINERD}/{name}")
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
        environment=(("CGO_ENABLED", "0"),),
    ),
    Family(
        name="runc",
        version="1.5.2",
        tools=(Tool(name="runc", package="github.com/opencontainers/runc"),),
        tags=("seccomp",),
        environment=(("CGO_ENABLED", "1"),),
    ),
    Family(
        name="cni",
        version="1.9.1",
        # Their names (bridge, loopback) are also those of other programs.
        tools=tuple(
            Tool(name=path.split("/")[-1], package=f"{_CNI}/{path}", version_arguments=())
            for path in ("main/bridge", "main/loopback", "ipam/host-local")
        ),
        environment=(("CGO_ENABLED", "0"),),
    ),
    _kubernetes("kubelet"),
    _one("coredns", "github.com/coredns/coredns", "1.15.0", "-version"),
    _one("helm", "helm.sh/helm/v4/cmd/helm", "4.3.1", "version", "--short"),
    _one("versitygw", "github.com/versity/versitygw/cmd/versitygw", "1.8.0"),
    # With its provider of simulated nodes. An installed one has another's provider.
    Family(
        name="karpenter",
        version="1.14.0",
        tools=(Tool(name="karpenter", package=f"{_KARPENTER}/kwok", version_arguments=()),),
        environment=(("CGO_ENABLED", "0"),),
        module=_KARPENTER,
        module_files=("kwok/charts/crds/*.yaml", "kwok/apis/crds/*.yaml"),
    ),
)

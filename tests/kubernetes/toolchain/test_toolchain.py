"""Programs are found, built once, and never half."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.kubernetes import fixtures
from tests.kubernetes.api import wait_for
from tests.kubernetes.toolchain import toolchain
from tests.kubernetes.toolchain.families import FAMILIES

ROOT = Path(__file__).parents[3]
#: A compiler that writes what it was asked for and counts its calls; TRICKLE lets it never end.
GO = """\
#!/bin/sh
case "$1" in version) echo "go version go1.26.8 linux/amd64"; exit;; esac
while [ "$1" != -o ]; do shift; done
echo half > "$2"
[ -z "$TRICKLE" ] || { echo building > "$TRICKLE"; exec sleep 600; }
echo '#!/bin/sh' > "$2"; chmod +x "$2"; echo "$3" >> "$CALLS"
"""
ETCD = next(family for family in FAMILIES if family.name == "etcd")
KUBECTL = next(f for f in FAMILIES if any(tool.name == "kubectl" for tool in f.tools))


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only a pretended compiler on the path, an empty cache; the file of its calls."""
    _program(tmp_path / "bin" / "go", GO)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "calls"


def test_a_second_set_up_builds_nothing(go: Path) -> None:
    toolchain.build([ETCD], say=False)
    toolchain.build([ETCD], say=False)

    assert go.read_text().split() == ["go.etcd.io/etcd/server/v3"]
    assert toolchain.find("etcd").is_relative_to(toolchain.cache_folder())


def test_a_set_up_killed_in_the_middle_leaves_nothing_that_looks_built(
    go: Path, tmp_path: Path
) -> None:
    trickle = tmp_path / "trickle"
    program = "from tests.kubernetes.toolchain import toolchain as t; from tests.kubernetes.toolchain.families import *"
    killed = subprocess.Popen(
        [sys.executable, "-c", f"{program}; t.build([FAMILIES[0]])"],
        cwd=ROOT,
        env=os.environ | {"TRICKLE": str(trickle)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    wait_for(trickle.exists, "the build")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    assert toolchain.missing(["etcd"]) == ["etcd"]
    toolchain.build([ETCD], say=False)
    assert [path.name for path in toolchain.family_folder(ETCD).iterdir()] == ["etcd"]


def test_a_changed_pin_is_another_folder(go: Path, tmp_path: Path, monkeypatch) -> None:
    before = toolchain.family_folder(ETCD)
    pins = tmp_path / "pins" / "etcd"
    pins.mkdir(parents=True)
    for name in ("go.mod", "go.sum"):
        original = (toolchain.PINS / "etcd" / name).read_text()
        (pins / name).write_text(original.replace("v3.6.6", "v3.6.7"))
    monkeypatch.setattr(toolchain, "PINS", pins.parent)

    assert toolchain.family_folder(ETCD) != before


def test_the_assets_of_a_developer_come_first(go: Path, tmp_path: Path, monkeypatch) -> None:
    toolchain.build([ETCD], say=False)
    _program(tmp_path / "assets" / "etcd", "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))

    assert toolchain.find("etcd") == tmp_path / "assets" / "etcd"


@pytest.mark.parametrize(("version", "taken"), [("v1.36.9", True), ("v1.32.4", False)])
def test_an_installed_program_is_taken_where_its_minor_version_fits(
    go: Path, tmp_path: Path, version: str, taken: bool
) -> None:
    _program(tmp_path / "bin" / "kubectl", f"#!/bin/sh\necho 'Client Version: {version}'\n")

    assert toolchain.missing(["kubectl"]) == ([] if taken else ["kubectl"])


def test_a_missing_program_says_how_to_get_it(go: Path) -> None:
    with pytest.raises(toolchain.ToolMissing, match="make setup-kubernetes"):
        toolchain.find("kube-apiserver")


def test_tests_skip_without_kubernetes_and_fail_where_it_is_required(go: Path, monkeypatch) -> None:
    monkeypatch.delenv("REQUIRE_KUBERNETES", raising=False)
    with pytest.raises(pytest.skip.Exception, match="etcd missing: make setup-kubernetes"):
        fixtures.need("etcd")
    monkeypatch.setenv("REQUIRE_KUBERNETES", "1")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE_KUBERNETES=1"):
        fixtures.need("etcd")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.tools[0].name)
def test_versions_and_packages_are_those_of_the_pins(family) -> None:
    pins = (toolchain.PINS / family.name / "go.mod").read_text()

    assert re.search(rf"\bv{re.escape(family.version)}\b", pins)
    for tool in family.tools:
        assert re.search(rf"^(tool)?\s+{re.escape(tool.package)}$", pins, re.MULTILINE)


def test_pins_name_no_proxy_and_no_folder_of_a_machine() -> None:
    for path in toolchain.PINS.glob("*/go.mod"):
        assert not re.search(r"https?://|=> [./]", path.read_text()), path


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))
    path.chmod(0o755)

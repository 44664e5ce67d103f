"""What is installed where, said once: images, the lowest JupyterHub, what documents and chart ask."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from deploy.release.contents import Image, dockerfile, read, version
from deploy.release.locks import pins
from tests.peers.run_on_jupyterhub_5 import HUB

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "deploy/image"
HUB_PAGE = ROOT / "docs/howto/install-on-zero-to-jupyterhub.md"
HELM_PAGE = ROOT / "docs/howto/install-with-helm.md"
LISTED = {image.dockerfile: image for image in read()[1]}


def lines(name: str) -> list[str]:
    text = (IMAGES / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def lowest(requirement: str) -> Version:
    (bound,) = (one for one in Requirement(requirement).specifier if one.operator == ">=")
    return Version(bound.version)


def test_the_lowest_jupyterhub_is_the_one_that_is_tested_everywhere() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = {
        lowest(one)
        for given in extras.values()
        for one in given
        if Requirement(one).name == "jupyterhub"
    }
    told = re.search(r"JupyterHub ([0-9.]+) or newer, which", HUB_PAGE.read_text())
    assert told is not None
    assert asked == {lowest(HUB), Version(told[1])}


def test_the_base_of_the_hubs_image_is_one_release_with_a_hub_that_is_new_enough() -> None:
    (base,) = re.findall(
        r"^ARG BASE=.*k8s-hub:(\S+)", "\n".join(lines("hub.Dockerfile")), re.MULTILINE
    )
    page = HUB_PAGE.read_text()
    assert set(re.findall(r"k8s-hub:([0-9.]+)", page)) == {base}
    told = re.search(r"Zero to JupyterHub has from ([0-9.]+) on", page)
    assert told is not None
    assert Version(base) >= Version(told[1])


@pytest.mark.parametrize("name", LISTED)
def test_a_dockerfile_is_what_the_list_of_contents_says(name: str) -> None:
    written = dockerfile(LISTED[name])
    assert {file: (IMAGES / file).read_text() for file in written} == written


@pytest.mark.parametrize("name", LISTED)
def test_every_image_copies_the_one_wheel_and_ends_as_a_user(name: str) -> None:
    found = lines(name)
    # Neither a compiler nor Node, nor a second build.
    assert not re.search(r"gcc|npm|pip wheel|AS build", "\n".join(found))
    assert [one for one in found if one.startswith("USER")][-1] == "USER 1000"


@pytest.mark.parametrize("image", LISTED.values(), ids=lambda image: image.name)
def test_the_lock_of_an_image_meets_what_its_extras_ask_and_moves_nothing_of_its_base(
    image: Image,
) -> None:
    own = pins((IMAGES / image.lock).read_text())
    base = pins((IMAGES / image.base_lock).read_text()) if image.base_lock else {}
    assert own.keys() & base.keys() == set()
    installed = own | base
    for asked in asked_by(image.extras):
        if asked.marker is None or asked.marker.evaluate({"sys_platform": "linux"}):
            assert asked.specifier.contains(installed[canonicalize_name(asked.name)]), asked


def asked_by(extras: list[str]) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [Requirement(one) for one in project["dependencies"]]
    for extra in extras:
        for one in map(Requirement, project["optional-dependencies"][extra]):
            found += asked_by(sorted(one.extras)) if one.name == "gpucommons" else [one]
    return found


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/gpucommons/Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {version()}


@pytest.mark.parametrize("name", ["hub.Dockerfile", "notebook.Dockerfile"])
def test_what_lies_in_a_base_is_changed_by_root_and_stays_as_it_is(name: str) -> None:
    found = lines(name)
    assert found.index("USER root") < min(i for i, one in enumerate(found) if one[:4] == "COPY")
    (run,) = (one for one in found if one.startswith("RUN"))
    assert "--constraint /tmp/base.txt" in run


def test_the_documents_install_so_that_it_can_be_repeated() -> None:
    page = HELM_PAGE.read_text()
    assert "helm install gpucommons" not in page
    namespace, install = page.index("create namespace jhub"), page.index("upgrade --install gpu")
    assert namespace < install


def test_npm_gives_up_on_a_proxy_within_minutes() -> None:
    settings = dict(
        line.split("=", 1) for line in (ROOT / ".npmrc").read_text().splitlines() if "=" in line
    )
    tries = int(settings["fetch-retries"]) + 1
    assert int(settings["fetch-timeout"]) * tries <= 5 * 60_000


def test_the_hub_starts_without_the_secret_that_the_documents_mount() -> None:
    assert re.search(r"gpucommons-hub-tokens, optional: true", HUB_PAGE.read_text())

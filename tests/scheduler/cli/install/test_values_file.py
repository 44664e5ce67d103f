"""An admin's own layout: kept where ours comes in, and back to the byte."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.cli.install import changes
from gpucommons.scheduler.cli.install.values_file import ValuesFile, applied, undone
from gpucommons.scheduler.errors import BadRequest

OURS = changes.Choice(hub_image="r.example/hub:1", notebook_image="r.example/notebook:1")
WIDE = """\
# Our hub
proxy:
  https: {hosts: [ hub.example.org ]}   # with brackets of their own

hub:
    config:
        Authenticator:
            admin_users:
            - ada
    extraConfig:
        01-own: |
            c.Spawner.default_url = "/lab"

singleuser:
  # image: old
  image:
    name: "scipy"
    tag: 2026-10-01
  profileList:
    - display_name: "Small"
      description: >
        One CPU,
        little memory
      default: True
  extraEnv: {A: 'x', N: ~}
cull:
  enabled: true
  every: 600   
# the end
"""  # noqa: W291 - as an admin leaves it
LAYOUTS = [
    WIDE,
    WIDE.replace("\n", "\r\n"),
    "\ufeff" + WIDE,
    WIDE.rstrip("\n"),
    f"---\n{WIDE}...\n",
    "",
    "# only a remark\n",
    "hub:\n  config: {}",
    "hub:\n  config:\n    a: \"long\n      text\"\n    c: [1,2,\n      3]\n    ? b\n    : v\n",
    "singleuser:\n  networkPolicy:\n    egress:\n      - to: []\n\n\ncull: {enabled: true}\n",
]  # fmt: skip


@pytest.mark.parametrize("text", LAYOUTS)
def test_each_layout_is_back_to_the_byte(text: str) -> None:
    after, done = applied(ValuesFile(text), OURS)
    assert len(done) == len(changes.changes(OURS))
    assert yaml.safe_load(after.removeprefix("\ufeff"))["cull"]["enabled"] is False
    assert applied(ValuesFile(after), OURS) == (after, [])
    assert undone(after) == (text, True)
    assert undone(text) == (text, False)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_that_are_not_ours_stay_as_they_are_written(end: str) -> None:
    text = WIDE.replace("\n", end)
    lines = applied(ValuesFile(text), OURS)[0].split(end)
    ours = {'    name: "scipy"', "    tag: 2026-10-01", "  enabled: true"}
    assert [one for one in text.split(end) if one not in lines] == [
        one for one in text.split(end) if one in ours
    ]


def test_what_was_changed_meanwhile_is_kept_and_is_not_called_the_file_of_before() -> None:
    after, _ = applied(ValuesFile(WIDE), OURS)
    changed = after.replace("every: 600", "every: 60")
    assert undone(changed) == (WIDE.replace("every: 600", "every: 60"), False)


def test_what_was_changed_twice_goes_back_to_the_first() -> None:
    first, _ = applied(
        ValuesFile(WIDE), changes.Choice(hub_image="r.example/hub:0", namespace="earlier")
    )
    assert undone(applied(ValuesFile(first), OURS)[0]) == (WIDE, True)


@pytest.mark.parametrize(
    "text",
    [
        "hub: &ours\n  config: {}\nother: *ours\n",
        "base: &base {image: {name: a}}\nsingleuser:\n  <<: *base\n",
    ],
)
def test_what_stands_at_two_places_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is shared with another place"):
        applied(ValuesFile(text), OURS)


def test_a_record_of_an_earlier_release_is_undone_without_a_way_back() -> None:
    after, _ = applied(ValuesFile(WIDE), OURS)
    digest = hashlib.sha256(WIDE.encode()).hexdigest()
    assert undone(after.replace(f"    file:\n      sha256: {digest}\n", "")) == (WIDE, False)


_KEYS = st.sampled_from(["a", "config", "image", "networkPolicy", "enabled"])
_TREES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([1, True, "x", "two words", "'", None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["hub", "singleuser", "cull", "proxy"]),
        st.dictionaries(_KEYS, _TREES, max_size=3),
    ),
    st.sampled_from([2, 4, 7]),
    st.sampled_from([None, True, False]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_an_admin_wrote_is_back_to_the_byte(
    values: dict[str, Any], indent: int, flow: bool | None, end: str
) -> None:
    text = yaml.safe_dump(values, indent=indent, default_flow_style=flow).replace("\n", end)
    try:
        after, _ = applied(ValuesFile(text), OURS)
    except BadRequest:
        return
    assert undone(after) == (text, True)

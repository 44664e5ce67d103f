"""Which cards run work of ours, against what their slots' reservations hold."""

from __future__ import annotations

import pytest

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.executors.kubernetes.objects.cards_in_use import cards_in_use, uses_of

ONE, TWO = DeviceId("n1/gpu-0"), DeviceId("n1/gpu-1")


@pytest.mark.parametrize(
    ("slots", "cards", "uses"),
    [
        ("n1/gpu-0,n1/gpu-1", "GPU-a,GPU-b", ((ONE, "GPU-a"), (TWO, "GPU-b"))),
        ("n1/gpu-0", "MIG-a", ((ONE, "MIG-a"),)),
        ("n1/gpu-0", "void", ()),
        ("", "GPU-a", ()),
        ("n1/gpu-0", "GPU-a,GPU-b", ()),
    ],
)
def test_a_pods_annotations_say_what_it_was_told(
    slots: str, cards: str, uses: tuple[object, ...]
) -> None:
    assert uses_of(slots, cards) == uses


def test_a_reservation_that_holds_what_runs_is_no_trouble() -> None:
    found = cards_in_use([(ONE, "GPU-a"), (ONE, "GPU-a")], {ONE: "GPU-a", TWO: "GPU-b"})
    assert (dict(found.at_odds), found.open_nodes) == ({}, frozenset())


def test_a_slot_whose_new_reservation_holds_another_card_is_lost_and_its_node_open() -> None:
    found = cards_in_use([(ONE, "GPU-a")], {ONE: "GPU-c", TWO: "GPU-b"})
    assert found.at_odds == {ONE: {"GPU-a"}}
    assert found.open_nodes == {"n1"}


def test_a_card_that_another_slots_pods_run_on_is_not_handed_out_again() -> None:
    found = cards_in_use([(ONE, "GPU-a")], {TWO: "GPU-a"})
    assert found.at_odds == {TWO: {"GPU-a"}}


def test_two_reservations_that_changed_places_are_both_lost() -> None:
    uses = [(ONE, "GPU-a"), (TWO, "GPU-b")]
    found = cards_in_use(uses, {ONE: "GPU-b", TWO: "GPU-a"})
    assert set(found.at_odds) == {ONE, TWO}


def test_a_card_whose_reservation_is_gone_may_be_given_away_and_one_not_yet_asked_is_held() -> None:
    uses = [(ONE, "GPU-a")]
    assert cards_in_use(uses, {}).open_nodes == {"n1"}
    assert cards_in_use(uses, {}, unasked={ONE}).open_nodes == frozenset()

"""What kept runs teach: from near to far, bounded, forgotten with time, and no guess beyond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.advisor.history import HALF_LIFE_S, Asked, Grade, Run, correction
from gpucommons.scheduler.advisor.network import Transformer
from gpucommons.scheduler.advisor.scaling import Scaling, Seen, believed_from, scaling_of
from gpucommons.scheduler.advisor.signature import network_called

ASKED = Asked(job="j", project="p", family="f", kind="A100-80", gpus=8, environment="d1")
RUN = Run(
    job="j",
    project="p",
    family="f",
    kind="A100-80",
    gpus=8,
    measured_s=1.2,
    formula_s=1.0,
    environment="d1",
)


def test_without_runs_the_formula_stands_and_is_graded_so() -> None:
    found = correction(ASKED, [])
    assert (found.factor, found.grade, found.runs) == (1.0, Grade.FORMULA, 0)
    probed = correction(replace(ASKED, probed=True), [])
    assert probed.grade is Grade.PROBE
    assert probed.spread < found.spread


def test_own_runs_count_most_and_five_make_grade_a() -> None:
    own = correction(ASKED, [RUN] * 5)
    far = correction(ASKED, [replace(RUN, job="k", project="q", family="g")] * 5)

    assert own.grade is Grade.HISTORY
    assert own.factor == pytest.approx(1.2, rel=0.02)
    assert 1.0 < far.factor < own.factor
    assert far.grade is Grade.PROBE
    assert own.spread < far.spread


def test_a_network_that_was_run_has_a_narrower_range_than_one_that_was_not() -> None:
    runs = [replace(RUN, job=f"j{number}", network="n") for number in range(6)]
    known, new = (correction(replace(ASKED, network=name), runs) for name in ("n", "other"))
    assert known.spread < new.spread
    # Both belong to the project whose runs these are.
    assert known.grade is new.grade is Grade.HISTORY
    # Its own runs tell more of a network than those of others in the project do.
    others = [replace(one, network="m", measured_s=1.0) for one in runs]
    each = [correction(replace(ASKED, network=name), [*runs, *others]) for name in ("n", "m")]
    assert each[0].factor > each[1].factor


def test_a_network_is_the_same_at_another_batch_and_sequence() -> None:
    one = Transformer(layers=2, hidden=64, heads=2, kv_heads=2, ffn=256, vocabulary=99, positions=8)
    assert network_called(one) == network_called(replace(one, positions=16))
    assert network_called(one) != network_called(replace(one, layers=3))


def test_another_project_speaks_with_one_voice_however_many_runs_it_has() -> None:
    invented = replace(RUN, job="x", project="q", measured_s=2.9)
    many = correction(ASKED, [invented] * 20)
    assert many == correction(ASKED, [invented])
    assert (many.grade, many.runs) == (Grade.PROBE, 1)
    # A few own runs outweigh it, and are what the best grade rests on.
    own = [replace(RUN, measured_s=1.0)] * 4
    held = correction(ASKED, [*own, *([invented] * 20)])
    assert held.grade is Grade.PROBE
    assert held.factor == pytest.approx(1.0, rel=0.05)
    assert correction(ASKED, [*own, own[0], invented]).grade is Grade.HISTORY


def test_runs_of_another_driver_kind_or_without_sense_do_not_count() -> None:
    for strange in (
        replace(RUN, environment="d2"),
        replace(RUN, kind="T4"),
        replace(RUN, measured_s=0.0),
        replace(RUN, age_s=-5.0),
    ):
        assert correction(ASKED, [strange] * 9).factor == 1.0


def test_old_runs_fade_and_a_mistaken_one_is_held_back() -> None:
    fresh = correction(ASKED, [RUN])
    old = correction(ASKED, [replace(RUN, age_s=20 * HALF_LIFE_S)])
    assert 1.0 <= old.factor < fresh.factor
    assert correction(ASKED, [replace(RUN, measured_s=1e9)] * 9).factor <= 3.01


def test_ranges_widen_beyond_twice_the_largest_scale_seen() -> None:
    at = [correction(replace(ASKED, gpus=gpus), [RUN] * 6).spread for gpus in (8, 16, 32, 64)]
    assert at[0] == at[1] < at[2] < at[3]


def test_few_points_of_an_unknown_training_tell_how_it_scales() -> None:
    def true(gpus: int, batch: float) -> float:
        return (0.05 + 0.01 * batch) + (0.02 if gpus > 1 else 0.0)

    seen = [
        Seen(gpus=gpus, nodes=1, local_batch=batch, step_s=true(gpus, batch))
        for gpus, batch in ((1, 4), (1, 32), (4, 8), (2, 16), (4, 32))
    ]
    found = scaling_of(seen)
    said = found.step_s(np.array([8.0]), np.array([1.0]), np.array([16.0]))
    assert float(said[0]) == pytest.approx(true(8, 16), rel=0.2)
    assert not found.far(8)
    assert found.far(9)


def _on_slow_pairs(*places: tuple[int, int], size: float = 1.0) -> Scaling:
    """A training whose gradients take 0.3 s between two nodes, and 0.2 s between more."""
    wire = {1: 0.02, 2: 0.3, 3: 0.2, 4: 0.2}
    return scaling_of(
        [
            Seen(
                gpus=gpus,
                nodes=nodes,
                local_batch=batch,
                step_s=size * (0.1 + 0.01 * batch + wire[nodes] * 2 * (gpus - 1) / gpus),
            )
            for gpus, nodes in places
            for batch in (4.0, 16.0)
        ]
    )


def _at(scaling: Scaling, gpus: int, nodes: int) -> float:
    ask = (np.array([float(one)]) for one in (gpus, nodes, 8))
    return float(scaling.step_s(*ask)[0])


def test_an_all_reduce_beyond_what_was_seen_grows_as_a_ring_and_not_with_each_gpu() -> None:
    seen = _on_slow_pairs((1, 1), (2, 2), (4, 2), (8, 2))
    assert _at(seen, 16, 2) == pytest.approx(0.1 + 0.01 * 8 + 0.3 * 2 * 15 / 16, rel=0.2)


def test_others_on_the_same_links_tell_that_three_nodes_are_faster_than_two() -> None:
    everywhere = ((1, 1), (2, 1), (2, 2), (4, 2), (3, 3), (6, 3), (8, 4))
    others = [_on_slow_pairs(*everywhere, size=size) for size in (0.5, 1.0, 2.0)]
    two = [
        Seen(gpus=2, nodes=2, local_batch=8.0, step_s=1.2),
        Seen(gpus=1, nodes=1, local_batch=8.0, step_s=0.5),
    ]
    alone, taught = scaling_of(two), scaling_of(two, believed_from(others))
    assert _at(taught, 3, 3) / _at(taught, 3, 2) < 0.9 < _at(alone, 3, 3) / _at(alone, 3, 2)


def test_one_training_that_lies_moves_what_is_believed_of_links_by_little() -> None:
    places = ((1, 1), (4, 1), (4, 2), (8, 2), (8, 4))
    honest = _on_slow_pairs(*places)
    lies = scaling_of(
        [replace(one, step_s=one.step_s * 40 ** (one.nodes > 1)) for one in honest.seen]
    )
    usual, told = believed_from([honest, honest]), believed_from([honest, lies])
    between = [float(one.middles[0][2]) for one in (usual, told)]
    assert between[1] - between[0] < 1.0


@settings(deadline=None, max_examples=30)
@given(
    points=st.lists(
        st.tuples(st.integers(1, 16), st.floats(1, 1000), st.floats(1e-3, 1e3)),
        min_size=1,
        max_size=5,
    )
)
def test_a_fit_never_says_less_than_nothing_whatever_was_seen(
    points: list[tuple[int, float, float]],
) -> None:
    seen = [Seen(gpus=g, nodes=1, local_batch=b, step_s=s) for g, b, s in points]
    said = scaling_of(seen).step_s(
        np.array([1.0, 16.0]), np.array([1.0, 2.0]), np.array([1.0, 64.0])
    )
    assert np.all(np.isfinite(said))
    assert np.all(said > 0)

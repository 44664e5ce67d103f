from __future__ import annotations

import time

import pytest

from gpucommons.labextension.job_offers.progress import Pace, Progress, read

MINUTE = 60_000


@pytest.mark.parametrize(
    ("text", "ran_min", "found"),
    [
        (" 37%|███▋      | 37/100 [10:00<17:01, 16.2s/it]", 10, Progress(done=37, of=100)),
        # The last one that is written over the others.
        ("1%| | 1/100 [00:09<1, ]\r2%| | 2/100 [10:00<1, ]", 10, Progress(done=2, of=100)),
        ("50%|█| 5/10 [1:10:00<1:10:00, 840s/it, loss=0.3]", 70, Progress(done=5, of=10)),
        # The outer of two bars is there all the time.
        (
            "Epochs: 20%|█| 2/10 [40:00<x]\n batches: 90%|█| 90/100 [03:00<x]",
            41,
            Progress(done=2, of=10),
        ),
        # One bar of many in a loop says nothing of the cell.
        ("90%|█| 90/100 [03:00<00:20, 2s/it]", 41, None),
        # What comes after it, nobody knows.
        ("100%|█| 100/100 [40:00<00:00, 2s/it]", 41, None),
        ("Epoch 3/10\n938/938 ━━ 5s loss: 0.2", 41, Progress(done=2.5, of=10)),
        ("  epoch: 3/10 loss 0.1\n  epoch: 4/10 loss 0.09\n", 41, Progress(done=3.5, of=10)),
        ("epoch 3 of many", 41, None),
        ("read 3/10 files", 41, None),
        ("", 41, None),
    ],
)
def test_what_is_printed_tells_how_far_the_cell_is(
    text: str, ran_min: int, found: Progress | None
) -> None:
    assert read(text, ran_min * MINUTE) == found


@pytest.mark.parametrize("text", ["\n" * 32768, "-\n" * 16384, "epoch\n" * 5000])
def test_lines_that_say_nothing_are_read_at_once(text: str) -> None:
    begun_s = time.process_time()
    assert read(text, MINUTE) is None
    assert time.process_time() - begun_s < 1


@pytest.mark.parametrize(
    "text", [f"1%| | 1/{'9' * 5000} [10:00<1, ]", f"1%| | 1/2 [{'9' * 5000}:00<1, ]"]
)
def test_numbers_without_end_say_nothing(text: str) -> None:
    assert read(text, MINUTE) is None


def paced(*seen: tuple[int, float], of: int = 10) -> Pace:
    pace = Pace()
    for minute, done in seen:
        pace.see(Progress(done=done, of=of), minute * MINUTE)
    return pace


def test_the_pace_is_that_of_steps_that_were_seen_to_end() -> None:
    # What it did before the first of them, loading data for ten minutes, is no part of it.
    pace = paced((10, 1), (12, 2), (14, 3), (15, 3), (16, 4))
    assert pace.left_ms(16 * MINUTE) == 12 * MINUTE
    assert pace.left_ms(17 * MINUTE) == 11 * MINUTE


@pytest.mark.parametrize(
    "pace",
    [
        paced((10, 1)),
        paced((10, 1), (12, 2)),
        # It begins anew.
        paced((10, 1), (12, 2), (14, 3), (16, 1)),
    ],
)
def test_no_pace_is_made_up(pace: Pace) -> None:
    assert pace.left_ms(16 * MINUTE) is None


def test_what_stands_has_no_pace() -> None:
    pace = paced((10, 1), (12, 2), (14, 3))
    assert pace.left_ms(18 * MINUTE) is not None
    assert pace.left_ms(19 * MINUTE) is None
    pace.see(None, 15 * MINUTE)
    assert pace.left_ms(15 * MINUTE) is None

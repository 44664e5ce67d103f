"""Curves from what scripts print: each framework's own lines, and logs that are about something else."""

from __future__ import annotations

import pytest
from ordinary_logs import ordinary_logs

from gpucommons.scheduler.curves.log_curve import LogCurve
from gpucommons.scheduler.curves.points import MAX_NAMES, Point, Unit

_HF_BAR = " 10%|█         | 50/480 [00:05<00:45,  9.9it/s]"
_GRADIENT_BOOSTING = "      Iter       Train Loss   Remaining Time "

#: Lines as printed, and the newest point that they make: unit, step, total, metrics.
PRINTED: dict[str, tuple[list[str], tuple[str, int, int | None, dict[str, float]]]] = {
    "a loss and nothing to place it by": (
        ["loss=0.12", "loss=0.11", "loss=0.10"],
        ("line", 3, None, {"loss": 0.10}),
    ),
    "only the epoch": (["epoch 3", "epoch 4", "epoch 5"], ("epoch", 5, None, {"epoch": 5})),
    "epoch and loss": (
        ["Epoch 3/10 | lr 0.1 | loss: 0.52"],
        ("epoch", 3, 10, {"loss": 0.52, "epoch": 3}),
    ),
    "a stamp before": (
        ["19:00:04 epoch 69  loss 0.0532  accuracy 0.9834"],
        ("epoch", 69, None, {"loss": 0.0532, "accuracy": 0.9834, "epoch": 69}),
    ),
    "Keras": (
        [
            "Epoch 1/3",
            "\r  10/1875 ━━━━━━━━━━━━━━━━━━━━ 1s 2ms/step - accuracy: 0.1 - loss: 2.2",
            "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 5s 2ms/step - accuracy: 0.91 - loss: 0.29 - val_loss: 0.17",
        ],
        ("epoch", 1, 3, {"accuracy": 0.91, "loss": 0.29, "val_loss": 0.17, "epoch": 1}),
    ),
    "Transformers with its bar": (
        [f"\r{_HF_BAR}\r      \r{{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 1.04}}"],
        ("step", 50, 480, {"loss": 0.5, "learning_rate": 5e-05, "epoch": 1.04}),
    ),
    "Transformers 5 without a bar": (
        ["{'loss': '0.5', 'grad_norm': '1.2', 'epoch': '0.5'}", "{'loss': '0.4', 'epoch': '1'}"],
        ("epoch", 1000, None, {"loss": 0.4, "epoch": 1}),
    ),
    "Lightning": (
        ["\rEpoch 3:  45%|████▌     | 420/938 [00:05<00:06, 80.14it/s, v_num=0, train_loss=0.046]"],
        ("step", 3 * 938 + 420, None, {"train_loss": 0.046, "epoch": 3.4478}),
    ),
    "tqdm, a bar for each epoch": (
        [
            "\r100%|██████████| 100/100 [00:01<00:00, 99.0it/s, loss=0.5]",
            "\r 20%|██        | 20/100 [00:01<00:00, 99.0it/s, loss=0.4]",
        ],
        ("step", 120, None, {"loss": 0.4}),
    ),
    "nanoGPT": (
        [
            "step 250: train loss 2.1348, val loss 2.2",
            "iter 250: loss 2.13, time 12.00ms, mfu -100.00%",
        ],
        ("step", 250, None, {"train loss": 2.1348, "val loss": 2.2, "loss": 2.13}),
    ),
    "mnist": (
        [
            "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.25",
            "Test set: Average loss: 0.0571, Accuracy: 9809/10000 (98%)",
        ],
        (
            "sample",
            640,
            None,
            {"Loss": 1.25, "Average loss": 0.0571, "Accuracy": 0.9809, "epoch": 0.0107},
        ),
    ),
    "JAX's own example": (
        [
            "Epoch 3 in 2.12 sec",
            "Training set accuracy 0.918",
            "Test set accuracy 0.9",
        ],
        (
            "epoch",
            3,
            None,
            {"Training set accuracy": 0.918, "Test set accuracy": 0.9, "epoch": 3},
        ),
    ),
    "ImageNet": (
        ["Epoch: [1][  10/5005]\tTime  0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.50 (  0.00)"],
        ("step", 5015, None, {"Loss": 6.9, "Acc 1": 0.5, "epoch": 1.002}),
    ),
    "epochs and steps within": (
        ["Epoch [2/5], Step [100/600], Loss: 0.25"],
        ("step", 700, None, {"Loss": 0.25, "epoch": 2}),
    ),
    "PyTorch's DDP tutorial": (
        [
            "[GPU0] Epoch 0 | Batchsize: 32 | Steps: 32",
            "Epoch 0 | Training snapshot saved at snapshot.pt",
            "[GPU0] Epoch 1 | Batchsize: 32 | Steps: 32",
            "[GPU0] Epoch 2 | Batchsize: 32 | Steps: 32",
        ],
        ("epoch", 2, None, {"epoch": 2}),
    ),
    "XGBoost": (
        ["[22:01:02] [10]\ttrain-rmse:0.1\teval-error:0.2"],
        ("round", 10, None, {"train-rmse": 0.1, "eval-error": 0.2}),
    ),
    "LightGBM": (
        ["[10]\ttraining's l2: 0.1\tvalid_0's binary_logloss: 0.3"],
        ("round", 10, None, {"training l2": 0.1, "valid_0 binary_logloss": 0.3}),
    ),
    "CatBoost": (
        ["10:\tlearn: 0.5\ttest: 0.6\tbest: 0.6 (10)\ttotal: 1s\tremaining: 2s"],
        ("round", 10, None, {"learn": 0.5, "test": 0.6}),
    ),
    "Optuna": (
        [
            "[I 2026-11-23 22:00:01,123] Trial 3 finished with value: 0.4 and parameters: {'x': 1.2}."
            " Best is trial 1 with value: 0.1."
        ],
        ("trial", 3, None, {"value": 0.4, "best": 0.1}),
    ),
    "scikit-learn": (["Iteration 7, loss = 0.30"], ("step", 7, None, {"loss": 0.3})),
    "scikit-learn's table": (
        [_GRADIENT_BOOSTING, "         2           1.1900            1.20s"],
        ("step", 2, None, {"Train Loss": 1.19}),
    ),
    "fastai's table": (
        [
            "epoch     train_loss  valid_loss  accuracy  time    ",
            "0         0.5       0.4    0.9   00:12",
        ],
        ("epoch", 0, None, {"train_loss": 0.5, "valid_loss": 0.4, "accuracy": 0.9, "epoch": 0}),
    ),
    "a tensor": (
        ["epoch 1 loss: tensor(0.5, grad_fn=<NllLossBackward0>)"],
        ("epoch", 1, None, {"loss": 0.5, "epoch": 1}),
    ),
    "colours": (["\x1b[32mstep 5\x1b[0m loss \x1b[1m0.5\x1b[0m"], ("step", 5, None, {"loss": 0.5})),
    "logging": (
        ["2026-11-23 22:00:00,123 - INFO - step: 41 - train/loss: 0.5"],
        ("step", 41, None, {"train/loss": 0.5}),
    ),
}


def _read(lines: list[str]) -> list[Point]:
    curve = LogCurve()
    return [point for line in lines for point in curve.read([line])]


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_becomes_a_point(name: str) -> None:
    lines, (unit, step, total, metrics) = PRINTED[name]
    newest = _read(lines)[-1]
    counter = newest.counter
    assert (counter.unit.value, counter.step, counter.total) == (unit, step, total)
    assert newest.stored == pytest.approx(metrics)


def test_the_bar_of_a_save_is_no_place_of_an_epoch() -> None:
    bar = "\rWriting model shards: 100%|██████████| 1/1 [00:00<00:00, 663.66it/s]"
    lines = [f"{{'loss': '0.5', 'epoch': '{at / 2}'}}" for at in range(1, 5)]
    printed = [part for line in lines for part in (bar, line)]
    assert [point.counter.step for point in _read(printed)] == [500, 1000, 1500, 2000]


@pytest.mark.parametrize("quote", ["", "'"])
def test_whole_epochs_stand_on_the_axis_of_those_told_in_part(quote: str) -> None:
    printed = ("0.5", "1", "1.5", "2")
    lines = [f"{{'loss': 0.5, 'epoch': {quote}{epoch}{quote}}}" for epoch in printed]
    assert [point.counter.step for point in _read(lines)] == [500, 1000, 1500, 2000]


def test_a_whole_epoch_of_transformers_stands_there_before_any_part_is_told() -> None:
    """An attempt that goes on may begin with one."""
    lines = ["{'loss': '0.5', 'epoch': '3'}", "{'loss': '0.4', 'epoch': '3.5'}"]
    assert [point.counter.step for point in _read(lines)] == [3000, 3500]


def test_a_bar_alone_says_not_how_long_the_run_is() -> None:
    (point,) = _read(["\r 20%|██        | 20/100 [00:01<00:00, 99.0it/s, loss=0.4]"])
    assert (point.counter.step, point.counter.total) == (20, None)


def test_lines_read_at_once_or_one_by_one_make_the_same_curve() -> None:
    for lines, _ in PRINTED.values():
        at_once = {point.counter.step: point for point in LogCurve().read(lines)}
        one_by_one = {point.counter.step: point for point in _read(lines)}
        assert at_once == one_by_one


def test_of_200_ordinary_logs_at_most_one_shows_a_curve() -> None:
    with_curve = [kind for kind, lines in ordinary_logs(400) if _read(lines)]
    assert len(with_curve) <= 2, with_curve


def test_a_counter_that_went_silent_places_no_metric() -> None:
    lines = ["Epoch 3/10", *["copying a file"] * 500, "loss: 0.5"]
    assert _read(lines) == []


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf", "NaN"])
def test_what_is_no_number_is_left_out_and_the_rest_stays(bad: str) -> None:
    (point,) = _read([f"step 5 loss: {bad} accuracy: 0.5"])
    assert point.metrics == {"accuracy": 0.5}


def test_a_metric_that_names_its_step_takes_over_from_counted_lines() -> None:
    points = _read(["loss=3.0", "loss=2.0", "loss=1.0", "step 10 loss=0.5", "loss=0.4 again"])
    assert points[-1].counter.unit is Unit.STEP
    assert points[-1].counter.step == 10


def test_a_script_with_a_thousand_names_shows_a_few() -> None:
    names = {
        name
        for point in _read([f"step {n} loss_{n}: 0.5" for n in range(1000)])
        for name in point.metrics
    }
    assert len(names) == MAX_NAMES


@pytest.mark.parametrize(
    "line",
    [
        "epoch " * 50_000,
        "loss: " + "9" * 300_000,
        "'a" * 100_000,
        "[" * 300_000 + "epoch 1 loss 0.5",
        "1%|" * 100_000,
        "loss aa bb cc " * 30_000,
        "\r".join(["epoch 3 loss=0.1"] * 60_000),
        "step 99999999999999999999 loss: 0.5",
        "epoch 1.9999999999999999999999 loss: 1e999",
    ],
)
def test_a_hostile_line_costs_little_and_ends_nothing(line: str) -> None:
    curve = LogCurve()
    curve.read([line] * 3)
    assert curve.read(["step 7 loss: 0.25"]) or curve.newest is not None

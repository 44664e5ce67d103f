"""One line of a log: the counter and the metrics in it, if any. Pure, and bounded in work.

Every pattern has fixed bounds and no repetition inside of a repetition, so that a line costs time in
proportion to its length, and a long line is cut before it is looked at.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from gpucommons.scheduler.curves.metric_names import is_metric, is_of_others, stands_beside, tidy
from gpucommons.scheduler.curves.points import EPOCH_PARTS, MAX_NAMES, Counter, Unit

#: Longer lines are cut: no framework prints its metrics behind so much else.
MAX_CHARACTERS = 2000
_MOST = 2**53

_NUMBER = r"[-+]?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})(?:[eE][-+]?\d{1,3})?"
_VALUE = rf"(?P<value>{_NUMBER}|nan|NaN|-?inf)"
#: What may follow a value: not a unit, a date's dash or another dot.
_END = (
    r"(?=[\s,;)}\]|'\"%]|\.(?:\s|$)|$)"
    r"(?! {0,2}(?:[mun]?s|secs?|seconds?|min|hours?|days?|k?g|[kKMGT]i?B|bytes?|dB|[kM]?Hz|[mk]?W|retries"
    r"|records?|packets?|times?)\b)"
)
#: ``loss=0.1``, ``'loss': '0.1'``, ``val loss: 0.1``, ``train-rmse:0.1``, ``valid_0's l2: 0.1``.
_PAIR = re.compile(
    r"(?<![\w.?&/%$+-])(?P<quote>['\"]?)"
    r"(?P<name>[A-Za-z][\w./@-]{0,47}(?:'s)?(?: [A-Za-z][\w@-]{0,23}){0,2})(?P=quote)"
    rf" {{0,4}}[:=] {{0,8}}(?:['\"]|tensor\(|np\.float\d\d\()?{_VALUE}{_END}"
)
#: ``train loss 2.1``, ``Test set accuracy 0.9``, ``Loss 6.9 (7.0)``, ``Acc@1 0.0``: no sign between name and number.
_SPACED = re.compile(
    r"(?<![\w.?&/%$+-])(?P<name>(?:(?i:train|training|val|valid|validation|test|eval|dev|avg|average|mean"
    r"|running|total)(?: set)?[ _])?(?:loss|acc|accuracy|ppl|perplexity|[Ll]oss|[Aa]ccuracy|Acc(?:@[15])?))"
    rf" {{1,8}}{_VALUE}{_END}"
)
_SHARE = re.compile(r"\b(?P<name>[Aa]cc(?:uracy)?)[:=]? {1,8}(?P<of>\d{1,12})/(?P<all>\d{1,12})\b")

_EPOCH = re.compile(
    r"(?<![\w.?&/-])['\"]?epochs?['\"]?(?: {0,2}[:=#] {0,2}\[? {0,6}| {1,4}\[? {0,6}|\[ {0,6})(?P<quoted>['\"]?)"
    r"(?P<at>\d{1,12}(?P<part>\.\d{1,12})?)(?![\w.])"
    r"(?:\]? {0,2}(?:/|of) {0,2}(?P<all>\d{1,12})\b)?",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?<![\w.?&/-])['\"]?(?:global[_ ]?steps?|train[_ ]?steps?|steps?|iter|iters|iteration|iterations|itr"
    r"|update|num_updates)['\"]?(?: {0,2}[:=#] {0,6}\[? {0,8}| {1,8}\[? {0,8}|\[ {0,8})['\"]?(?P<at>\d{1,15})(?![\w.])"
    r"(?:\]? {0,2}(?:/|of) {0,6}(?P<all>\d{1,15})\b)?",
    re.IGNORECASE,
)
#: Within an epoch: ``[  10/5005]`` and ``[640/60000 (1%)]``.
_WITHIN = re.compile(
    r"\[ {0,8}(?P<at>\d{1,12}) {0,2}/ {0,2}(?P<all>\d{1,12})(?P<samples> {0,2}\(\d{1,3}(?:\.\d{1,4})?%\))?\]"
)
#: A progress bar: ``45%|████▌     | 420/938 [00:05<00:06, 80.1it/s``.
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\| {0,8}(?P<at>\d{1,12})/(?P<all>\d{1,12}) \[\d")
#: Keras' bar: ``120/1875 ━━━━━``, ``1875/1875 [=====]``, ``1875/1875 - 3s``.
_KERAS = re.compile(r"^ {0,10}(?P<at>\d{1,12})/(?P<all>\d{1,12}) (?:[━=\[]|- \d)")
_ROUND = re.compile(r"^(?:\[\d\d:\d\d:\d\d\] ?)?\[(?P<at>\d{1,9})\][\t ]")
#: Behind a boosting round any name with its data set is a metric: ``train-error:0.1``.
_BOOSTED = re.compile(
    rf"\t(?P<name>[A-Za-z][\w']{{1,40}}[- ][\w@.-]{{1,30}}): ?{_VALUE}(?=[\s+]|$)"
)
_CATBOOST = re.compile(rf"^(?P<at>\d{{1,9}}):\tlearn: {_VALUE}(?=[\t ])")
_CATBOOST_TEST = re.compile(rf"\ttest: {_VALUE}(?=[\t ])")
_TRIAL = re.compile(rf"\bTrial (?P<at>\d{{1,9}}) finished with value: {_VALUE}(?=[\s,;]|$)")
_BEST = re.compile(rf"\bBest is trial \d{{1,9}} with value: {_VALUE}(?:[.,;]?(?:\s|$))")
#: A line that counts and says nothing else, or an epoch at its start.
_ONLY_COUNTS = re.compile(
    r"^(?:\[?[\w:.,/ -]{0,40}\]? ?)??(?:epoch|step|iter|iteration)[ :=#]{1,3}\d{1,12}"
    r"(?: {0,2}(?:/|of) {0,2}\d{1,12})? {0,2}[.:,!]{0,3}(?: (?:done|finished|complete|completed))?$",
    re.IGNORECASE,
)
_EPOCH_FIRST = re.compile(
    r"^(?:\[[\w :.-]{1,30}\] ?)?epoch[ :]{1,2}\d{1,9}(?:/\d{1,9})?(?: ?[|:,-] ?| |$)", re.IGNORECASE
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,16}[ -/]{0,2}[@-~]")
#: Nothing of interest is in a line without one of these.
_HINT = re.compile(
    r"loss|acc|epoch|step|iter|trial|learn:|ppl|perplexity|rmse|mse|mae|auc|f1|bleu|reward|logloss"
    r"|\t\w+-error|dice|iou|wer|nll|elbo|'s |bpb",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """What one line says."""

    metrics: dict[str, float] = field(default_factory=dict)
    counter: Counter | None = None
    #: A progress bar's position; what it counts is for others to say.
    bar: tuple[int, int] | None = None
    #: It counts and says nothing more, as a line of its own.
    counts_only: bool = False


NOTHING = Line()


def plain(text: str) -> str:
    """Without colours and what a terminal would have drawn over, and not too long."""
    return _ESCAPES.sub("", text[: 2 * MAX_CHARACTERS]).replace("\b", "").rstrip()[:MAX_CHARACTERS]


def read_line(text: str) -> Line:
    """Read a line (see :func:`plain`)."""
    bar = _bar_of(text)
    if _HINT.search(text) is None:
        return NOTHING if bar is None else Line(bar=bar)
    if (own := _trial(text) or _catboost(text)) is not None:
        return own
    if (boosted := _boosted(text)) is not None:
        return boosted
    metrics = _metrics_of(text)
    counter = _counter_of(text)
    counts_only = counter is not None and not metrics and _is_only_counting(text, counter)
    return Line(metrics=metrics, counter=counter, bar=bar, counts_only=counts_only)


def number(text: str) -> float | None:
    """A finite number; None where it is none, as after a division by nothing."""
    value = float(text)
    return value if math.isfinite(value) else None


def _bar_of(text: str) -> tuple[int, int] | None:
    match = _BAR.search(text) or _KERAS.match(text)
    return None if match is None else (int(match["at"]), int(match["all"]))


def _metrics_of(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    beside: dict[str, float] = {}
    for match in (*_PAIR.finditer(text), *_SPACED.finditer(text)):
        name = tidy(_metric_name(match["name"]))
        into = found if is_metric(name) else beside if stands_beside(name) else None
        if into is None or name in into or len(found) >= MAX_NAMES:
            continue
        if (value := number(match["value"])) is not None:
            into[name] = value
        else:
            # The name is known all the same: the line is about training.
            into.setdefault(name, math.nan)
    for match in _SHARE.finditer(text):
        if int(match["all"]) and match["name"] not in found:
            found[match["name"]] = int(match["of"]) / int(match["all"])
    if not found:
        return {}
    return {**found, **beside}


def _metric_name(name: str) -> str:
    """Of ``Average loss`` all, of ``saved and loss`` only the word itself."""
    words = name.replace("'s ", "'s").split(" ")
    while len(words) > 1 and not _may_lead(words[0]):
        words = words[1:]
    return " ".join(words).replace("'s", " ")


_LEADERS = frozenset(
    [
        "train",
        "training",
        "val",
        "valid",
        "validation",
        "test",
        "eval",
        "evaluation",
        "dev",
        "avg",
        "average",
        "mean",
        "running",
        "total",
        "epoch",
        "step",
        "batch",
        "final",
        "best",
    ]
)


def _may_lead(word: str) -> bool:
    return word.lower() in _LEADERS or is_of_others(word) or word.endswith("'s")


def _counter_of(text: str) -> Counter | None:
    step, epoch = _STEP.search(text), _EPOCH.search(text)
    if epoch is None:
        return None if step is None else _count(Unit.STEP, step["at"], step["all"])
    at = float(epoch["at"])
    if step is None or _is_per_epoch(step, epoch):
        return _within(text, epoch) or _epochs(epoch)
    total = None if step["all"] is None else int(step["all"])
    if total is not None and epoch["part"] is None:
        # ``Epoch [2/5], Step [100/600]``: steps begin anew with each epoch.
        first = 0 if at == 0 else 1
        return _count(Unit.STEP, str(int(at - first) * total + int(step["at"])), None, at)
    return _count(Unit.STEP, step["at"], step["all"], at)


def _is_per_epoch(step: re.Match[str], epoch: re.Match[str]) -> bool:
    """``Steps: 32`` behind an epoch says how many there are, not how far it is."""
    return step.start() > epoch.end() and step[0].lower().startswith("steps")


def _within(text: str, epoch: re.Match[str]) -> Counter | None:
    """Batches or samples within an epoch, counted through."""
    inner = _WITHIN.search(text, epoch.end() - 1)
    bar = _BAR.search(text, epoch.end()) if inner is None else None
    match = inner or bar
    if match is None or epoch["part"] is not None:
        return None
    at, done, everything = int(epoch["at"]), int(match["at"]), int(match["all"])
    if not everything or done > everything:
        return None
    # With an epoch called 0 nothing lies before it; who counts from 1 starts the same way.
    is_samples = inner is not None and inner["samples"] is not None
    before = max(0, at - 1) if is_samples else at
    unit = Unit.SAMPLE if is_samples else Unit.STEP
    part = round(before + done / everything, 4)
    return _count(unit, str(before * everything + done), None, part)


def _epochs(match: re.Match[str]) -> Counter | None:
    total = None if match["all"] is None else int(match["all"])
    at = float(match["at"])
    # Transformers quotes its numbers, and writes whole epochs among parts of them as ``'2'``.
    if match["part"] is None and not match["quoted"]:
        return _count(Unit.EPOCH, match["at"], match["all"], at)
    step = round(at * EPOCH_PARTS)
    return Counter(unit=Unit.EPOCH, step=step, total=total, epoch=at) if step <= _MOST else None


def _count(unit: Unit, at: str, total: str | None, epoch: float | None = None) -> Counter | None:
    step, all_ = int(at), None if total is None else int(total)
    if step > _MOST or (all_ is not None and (all_ < step or all_ > _MOST)):
        return None
    return Counter(unit=unit, step=step, total=all_, epoch=epoch)


def _trial(text: str) -> Line | None:
    match = _TRIAL.search(text)
    if match is None:
        return None
    best = _BEST.search(text)
    values = {"value": match["value"]} | ({} if best is None else {"best": best["value"]})
    metrics = {name: value for name, text in values.items() if (value := number(text)) is not None}
    return Line(metrics=metrics, counter=_count(Unit.TRIAL, match["at"], None))


def _boosted(text: str) -> Line | None:
    match = _ROUND.match(text)
    if match is None:
        return None
    metrics = {
        tidy(_metric_name(found["name"])): value
        for found in _BOOSTED.finditer(text)
        if (value := number(found["value"])) is not None
    }
    counter = Counter(unit=Unit.ROUND, step=int(match["at"]))
    return Line(metrics=metrics, counter=counter) if metrics else None


def _catboost(text: str) -> Line | None:
    match = _CATBOOST.match(text)
    if match is None:
        return None
    test = _CATBOOST_TEST.search(text)
    values = {"learn": match["value"]} | ({} if test is None else {"test": test["value"]})
    metrics = {name: value for name, text in values.items() if (value := number(text)) is not None}
    return Line(metrics=metrics, counter=_count(Unit.ROUND, match["at"], None))


def _is_only_counting(text: str, counter: Counter) -> bool:
    if _ONLY_COUNTS.match(text) is not None:
        return True
    return counter.unit is Unit.EPOCH and _EPOCH_FIRST.match(text) is not None

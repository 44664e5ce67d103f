"""Logs that are not filled by whoever can make a service complain."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest

from gpucommons.gpu import said_once
from gpucommons.gpu.log_lines import REQUEST, TRACEPARENT, JsonLines
from gpucommons.gpu.said_once import SaidOnce


class Log(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.texts: list[str] = []
        self.once = SaidOnce(self.handle, now_s=lambda: self.now_s)
        self.addFilter(self.once)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def log() -> Iterator[Log]:
    handler, logger = Log(), logging.getLogger("said-once")
    logger.addHandler(handler)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logger.propagate = True


def warn(text: str, *arguments: object) -> None:
    logging.getLogger("said-once").warning(text, *arguments)


def test_a_line_is_said_once_and_then_how_often(log: Log) -> None:
    for _ in range(1000):
        warn("no descriptors")
    log.now_s = 61
    warn("all is well")

    assert log.texts == ["no descriptors", "said 999 more times: no descriptors", "all is well"]


def test_it_is_said_anew_when_its_minute_is_over(log: Log) -> None:
    warn("away")
    log.now_s = 61
    warn("away")

    assert log.texts == ["away", "away"]


def test_lines_that_differ_only_in_what_was_filled_in_are_bounded(log: Log) -> None:
    for number in range(10_000):
        warn("404 %s", f"/secret-{number}")
    log.once.tell_counts()

    assert len(log.texts) == said_once.MOST_OF_A_KIND + 1
    assert log.texts[-1] == "9800 more lines like this one: 404 /secret-200"


def test_texts_put_together_before_are_bounded_too(log: Log) -> None:
    for number in range(100_000):
        warn(f"404 /secret-{number}")

    assert len(log.texts) < 1000


def failing(number: int) -> Callable[[], None]:
    def fail() -> None:
        message = f"different each time: {number}"
        raise ValueError(message)

    return fail


def test_an_error_is_the_same_where_it_was_raised_at_the_same_place(log: Log) -> None:
    for number in range(50):
        try:
            failing(number)()
        except ValueError:
            logging.getLogger("said-once").exception("in a callback")
    log.once.tell_counts()

    assert log.texts == ["in a callback", "said 49 more times: in a callback"]


def test_a_line_is_a_document_with_the_request_that_it_belongs_to(log: Log) -> None:
    lines: list[dict[str, str]] = []
    form = JsonLines()
    log.emit = lambda record: lines.append(json.loads(form.format(record)))  # type: ignore[method-assign] # instead
    before = REQUEST.set("r-1")
    try:
        warn("the disk is %s", "full\nand more")
        warn("the disk is %s", "full\nand more")
    finally:
        REQUEST.reset(before)
    before = REQUEST.set("r-2")
    try:
        log.now_s = 100
        warn("another")
    finally:
        REQUEST.reset(before)

    said = [(one["message"], one.get("request_id")) for one in lines]
    # Who is answered when a count is told has nothing to do with it.
    assert said == [
        ("the disk is full\nand more", "r-1"),
        ("said 1 more times: the disk is full\nand more", None),
        ("another", "r-2"),
    ]
    assert (lines[0]["level"], lines[0]["logger"]) == ("WARNING", "said-once")
    assert lines[0]["at"].endswith("+00:00")


def test_a_line_of_a_request_that_is_traced_names_its_trace() -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    before = (REQUEST.set("r-1"), TRACEPARENT.set(f"00-{trace}-00f067aa0ba902b7-01"))
    try:
        document = json.loads(JsonLines().format(logging.makeLogRecord({"msg": "done"})))
    finally:
        REQUEST.reset(before[0])
        TRACEPARENT.reset(before[1])
    assert (document["request_id"], document["trace_id"]) == ("r-1", trace)


def test_an_error_is_in_its_line() -> None:
    error = ValueError("broken")
    record = logging.makeLogRecord({"msg": "it failed", "exc_info": (ValueError, error, None)})
    document = json.loads(JsonLines().format(record))
    assert "ValueError: broken" in document["error"]
    assert "request_id" not in document


@pytest.mark.parametrize(
    "strange", ["\u2028", "\u2029", "\u0085", "\u202e", "\x9b31m", "\x1b[31m", "\x7f"]
)
def test_no_letter_that_somebody_sent_breaks_a_line_or_steers_a_terminal(strange: str) -> None:
    text = f"no job {strange}x"
    line = JsonLines().format(logging.makeLogRecord({"msg": text}))
    assert line.isascii()
    assert line.isprintable()
    assert line.splitlines() == [line]
    assert json.loads(line)["message"] == text

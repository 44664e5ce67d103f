"""Lines of a log as JSON, for programs that collect them, with the request that each belongs to."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

#: The variable that asks for it: ``json``.
FORMAT = "GPUCOMMONS_LOG_FORMAT"
#: What is answered at present, by its number; empty outside of requests.
REQUEST: ContextVar[str] = ContextVar("request", default="")
#: Its span, as W3C's Trace Context writes it; empty where it has none.
TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
#: The mark of lines that say how often others were: they belong to no request.
COUNT_MARK = "gpucommons_count"


class JsonLines(logging.Formatter):
    """One document in a line: moment (UTC), level, logger, message, and where there is one request and error."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one."""
        at = datetime.fromtimestamp(record.created, UTC)
        document = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request := REQUEST.get()) and not hasattr(record, COUNT_MARK):
            document["request_id"] = request
            if traceparent := TRACEPARENT.get():
                document["trace_id"] = traceparent.split("-")[1]
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        # Of letters outside of ASCII some end a line, turn it round or steer a terminal: messages quote callers.
        return json.dumps(document, ensure_ascii=True)

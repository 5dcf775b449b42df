"""Formats of the log: lines for people, or one JSON object per line, both without evidence."""

import json
import logging
import time
from typing import Any

from serving.call import current


def configure(log_format: str) -> None:
    """Makes the process log to standard error as text or JSON, unless logging is configured already."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class TextFormatter(logging.Formatter):
    """A line for people, with the request id if it was logged during a call."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Returns the line without a traceback."""
        request_id = current().request.id
        fields = "".join(f" {name}={value}" for name, value in getattr(record, "fields", {}).items())
        return super().formatMessage(record) + fields + (f" [{request_id}]" if request_id else "")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, severity, logger, message, and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the object as one line of text."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        call = current()
        if call.request.id:
            entry["request_id"] = call.request.id
        if call.span is not None:
            entry["trace_id"] = format(call.span.get_span_context().trace_id, "032x")
        entry.update(getattr(record, "fields", {}))
        if record.exc_info:
            entry["stack"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)

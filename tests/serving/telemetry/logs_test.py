"""The lines of the log."""

import contextvars
import io
import json
import logging
import sys

from serving import call as calls
from serving.telemetry.logs import JsonFormatter, TextFormatter


def logged(formatter, request_id="", **extra):
    """Returns the line of one warning, with the stack of a KeyError."""
    logger = logging.Logger("serving.test")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)

    def log():
        if request_id:
            calls.enter(calls.Call(calls.Request("/s/m", request_id)))
        try:
            raise KeyError
        except KeyError:
            logger.warning("version %d\nis “broken”", 3, exc_info=sys.exc_info(), extra=extra)

    contextvars.copy_context().run(log)
    return stream.getvalue()


def test_json_is_one_object_per_line_with_all_fields():
    line = logged(JsonFormatter(), "r-17", fields={"code": "OK", "seconds": 0.25})
    assert line.count("\n") == 1
    entry = json.loads(line)
    assert entry.pop("stack").endswith("KeyError")
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "severity": "WARNING",
        "logger": "serving.test",
        "message": "version 3\nis “broken”",
        "request_id": "r-17",
        "code": "OK",
        "seconds": 0.25,
    }


def test_text_names_the_request_at_the_end_of_the_message():
    assert "is “broken” [r-17]\n" in logged(TextFormatter(), "r-17")
    assert "is “broken” code=OK states=2 [r-17]\n" in logged(
        TextFormatter(), "r-17", fields={"code": "OK", "states": 2}
    )

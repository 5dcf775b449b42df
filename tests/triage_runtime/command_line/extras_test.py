import pytest

from schemas.errors import InputError
from triage_runtime.command_line import extras
from triage_runtime.command_line.extras import need


def test_what_is_missing_is_named_with_the_extra_of_the_distribution_that_is_there(monkeypatch):
    need("json", "--json", "json")
    there = {"trainer"}
    monkeypatch.setattr(extras, "is_installed", lambda module: module in there)
    with pytest.raises(InputError, match=r"^--traces needs opentelemetry: pip install 'dyqn-triage\[tracing\]'$"):
        need("opentelemetry", "--traces", "tracing")
    there.clear()
    with pytest.raises(InputError, match=r"^--audit-log needs tensorflow: pip install 'dyqn-triage-serving\[tens"):
        need("tensorflow", "--audit-log", "tensorflow")

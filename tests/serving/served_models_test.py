"""Which engine a server's settings lead to."""

import pytest

from serving.batching import BatchedEngine
from serving.config import ServeConfig
from serving.engine import SavedModelEngine
from serving.errors import UnavailableError
from serving.litert_engine import LiteRtEngine
from serving.safeguards import SafeguardedEngine
from serving.served_models import watcher_of
from serving.version_policy import Wanted

RULES = """
[smoke]
reason = "Smokes."
urgency = "Yellow"
all.present = ["smoker"]
"""


@pytest.fixture
def served(model_base_path):
    """Returns the engine of the default version."""

    def served(**settings):
        watcher = watcher_of(ServeConfig(**settings), Wanted(model_base_path))
        watcher.look()
        with watcher.versions.borrow_default() as engine:
            return engine

    return served


def test_runs_are_batched_around_the_rules_and_those_around_the_model(served, tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    batched = served(rules=str(tmp_path / "rules.toml"))
    assert isinstance(batched, BatchedEngine)
    assert isinstance(batched.engine, SafeguardedEngine)
    assert [rule.rule_id for rule in batched.info.server_rules] == ["smoke"]


@pytest.mark.parametrize(("litert", "kind"), [(True, LiteRtEngine), (False, SavedModelEngine)])
def test_without_batching_and_rules_the_engine_stands_by_itself(served, litert, kind):
    assert type(served(enable_batching=False, litert=litert)) is kind


def test_a_remote_engine_is_asked_for_its_versions(model_base_path):
    settings = {"engine": "tensorflow-serving", "tf_serving": "127.0.0.1:1", "engine_timeout_seconds": 0.5}
    watcher = watcher_of(ServeConfig(**settings), Wanted(model_base_path))
    watcher.look()
    with pytest.raises(UnavailableError):
        watcher.check()

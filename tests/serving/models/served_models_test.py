"""Versions on this machine's disk, and that one which is let go gives its memory back."""

import gc
import shutil
import weakref

import pytest

from schemas.errors import InputError
from serving.config import ServeConfig
from serving.errors import UnavailableError
from serving.messages import state_message
from serving.models.batching import BatchedEngine
from serving.models.engine import SavedModelEngine
from serving.models.litert import LiteRtEngine
from serving.models.safeguards import SafeguardedEngine
from serving.models.served_models import LocalModels, watcher_of
from serving.models.version_policy import Wanted


def test_versions_are_found_and_loaded(model_base_path, hand_set):
    models = LocalModels()
    assert models.versions(model_base_path) == {3: model_base_path / "3"}
    (response,) = models.load(model_base_path / "3").triage([state_message(["chest_pain"])])
    assert [q.value for q in response.q_values] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)


def test_a_version_that_does_not_answer_its_warm_up_requests_is_not_loaded(model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "4")
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"no record of anything at all")
    with pytest.raises(InputError, match="request 1 failed"):
        LocalModels().load(version)


def test_a_model_that_nobody_holds_is_freed(model_base_path):
    engine = LocalModels().load(model_base_path / "3")
    weights, litert = weakref.ref(engine._model), weakref.ref(engine.litert)
    del engine
    gc.collect()
    assert weights() is None
    assert litert() is None


@pytest.mark.parametrize(("litert", "expected"), [(True, LiteRtEngine), (False, SavedModelEngine)])
def test_litert_answers_small_batches_unless_it_is_turned_off(model_base_path, litert, expected):
    assert type(LocalModels(litert).load(model_base_path / "3")) is expected


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
def test_without_batching_and_rules_the_engine_is_not_wrapped(served, litert, kind):
    assert type(served(enable_batching=False, litert=litert)) is kind


def test_a_remote_engine_is_asked_for_its_versions(model_base_path):
    settings = {"engine": "tensorflow-serving", "tf_serving": "127.0.0.1:1", "engine_timeout_seconds": 0.5}
    watcher = watcher_of(ServeConfig(**settings), Wanted(model_base_path))
    watcher.look()
    with pytest.raises(UnavailableError):
        watcher.check()


def test_a_folder_whose_number_is_no_64_bit_integer_is_ignored_with_one_warning(tmp_path, caplog):
    for name in ("3", str(2**63 - 1), str(2**63)):
        (tmp_path / name).mkdir()
    models = LocalModels()
    for _ in range(2):
        assert models.versions(tmp_path).keys() == {3, 2**63 - 1}
    (record,) = caplog.records
    assert record.getMessage() == f"{tmp_path / str(2**63)}: ignored: the largest version is 9223372036854775807"

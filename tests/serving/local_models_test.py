"""Versions on this machine's disk, and that one which is let go gives its memory back."""

import gc
import shutil
import weakref

import pytest

from schemas.errors import InputError
from serving.client import evidence_state
from serving.engine import SavedModelEngine
from serving.litert_engine import LiteRtEngine
from serving.local_models import LocalModels


def test_versions_are_found_and_loaded(model_base_path, hand_set):
    models = LocalModels()
    assert models.versions(model_base_path) == {3: model_base_path / "3"}
    (response,) = models.load(model_base_path / "3").triage([evidence_state(["chest_pain"])])
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

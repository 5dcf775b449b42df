import importlib.resources
import shutil

import pytest

from schemas.errors import InputError
from trainer.simulation.knowledge_base import KnowledgeBase, cross_faults


@pytest.fixture(scope="module")
def knowledge():
    return KnowledgeBase.load()


@pytest.fixture
def broken(tmp_path):
    """A copy of the package's knowledge base, to be broken."""
    with importlib.resources.as_file(importlib.resources.files("schemas").joinpath("knowledge")) as packaged:
        return shutil.copytree(packaged, tmp_path / "broken")


def test_the_packaged_vocabulary_is_as_large_as_the_papers(knowledge):
    assert len(knowledge.catalogue) == 597
    assert 460 <= len(knowledge.catalogue.of_kind("symptom")) <= 500


def test_the_packaged_evidence_asks_a_patient_a_question(knowledge):
    for entry in knowledge.catalogue:
        assert entry.evidence.question.endswith("?"), entry.code
        assert entry.evidence.name[0].isupper() or entry.evidence.name[0].isdigit(), entry.code


def test_the_packaged_conditions_cover_every_system_and_their_codes_differ(knowledge):
    codes = [condition.code for condition in knowledge.conditions]
    assert len(codes) == len(set(codes)) >= 180
    assert len({condition.name for condition in knowledge.conditions}) == len(codes)
    assert len({condition.system for condition in knowledge.conditions}) >= 12


@pytest.mark.parametrize(
    ("harmless", "deadly", "shared"),
    [
        ("gastro_oesophageal_reflux", "acute_myocardial_infarction", "chest_pain"),
        ("migraine", "subarachnoid_haemorrhage", "headache"),
        ("nonspecific_viral_illness", "bacterial_meningitis", "fever"),
        ("muscle_strain_of_chest_or_back", "aortic_dissection", "chest_pain"),
    ],
)
def test_look_alikes_share_a_finding_and_differ_in_urgency(knowledge, harmless, deadly, shared):
    mild, grave = knowledge.condition(harmless), knowledge.condition(deadly)
    assert mild.evidence[shared] > 0.1
    assert grave.evidence[shared] > 0.1
    assert grave.urgency[0] > 0.5 > 0.1 > mild.urgency[0]
    assert mild.prevalence > grave.prevalence


def test_the_fingerprint_follows_the_content(toy_knowledge_directory):
    before = KnowledgeBase.load(toy_knowledge_directory).fingerprint
    assert KnowledgeBase.load(toy_knowledge_directory).fingerprint == before
    path = toy_knowledge_directory / "conditions" / "toy.toml"
    path.write_text(path.read_text().replace("prevalence = 80", "prevalence = 81"))
    assert KnowledgeBase.load(toy_knowledge_directory).fingerprint != before


def test_a_broken_copy_has_all_its_faults_reported_with_their_files(broken):
    respiratory, skin = broken / "conditions" / "respiratory.toml", broken / "conditions" / "skin.toml"
    respiratory.write_text(respiratory.read_text().replace("cough = 0.9\n", "cough = 1.9\n", 1))
    skin.write_text(skin.read_text().replace("itching = ", "itchiness = ", 1))
    faults = (f"{respiratory}: pneumonia: evidence: cough: .*1.9", f"{skin}: atopic_eczema: evidence: .*'itchiness'")
    with pytest.raises(InputError, match="(?s)" + ".*".join(faults)):
        KnowledgeBase.load(broken)


def test_conditions_that_nothing_distinguishes_are_a_fault(toy_knowledge_directory):
    path = toy_knowledge_directory / "conditions" / "toy.toml"
    twin = path.read_text().split("[heart_attack]")[0].replace("common_cold", "sniffles").replace("0.9", "0.99")
    path.with_name("twin.toml").write_text(twin)
    with pytest.raises(InputError, match="'common_cold' and 'sniffles'"):
        KnowledgeBase.load(toy_knowledge_directory)
    path.with_name("twin.toml").write_text(twin.replace("cough = 0.8", "cough = 0.65"))
    assert len(KnowledgeBase.load(toy_knowledge_directory).conditions) == 4  # .15 apart is enough


def test_a_condition_that_occurs_twice_is_a_fault(toy_knowledge):
    conditions = [*toy_knowledge.conditions, toy_knowledge.conditions[0]]
    assert any("'common_cold' is defined twice" in fault for fault in cross_faults(conditions, toy_knowledge.catalogue))


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("evidence.csv", "{}hiccups,symptom,Hiccups,Hiccups?,general,,,,0.01\n", "'hiccups'"),  # no condition uses it
        ("risk_factors.toml", "[smoking]\nchild = 0\n", "smoking: "),
        ("risk_factors.toml", "[woman]\nchild = 1\n", "woman: .*sex"),
        ("risk_factors.toml", "[smoker]\npregnant = 1\n", "smoker: 'pregnant' "),
        ("risk_factors.toml", "[smoker]\nchild = -1\n", "smoker: child: multiplier -1: "),
        ("synonyms.csv", "code,synonyms\ncough,barking\ncough,Husten\n", r"synonyms\.csv: line 3: 'cough' "),
    ],
)
def test_a_fault_is_reported_with_its_code(toy_knowledge_directory, file, text, fault):
    path = toy_knowledge_directory / file
    path.write_text(text.replace("{}", path.read_text() if path.exists() else ""))
    with pytest.raises(InputError, match=fault):
        KnowledgeBase.load(toy_knowledge_directory)


def test_a_folder_without_conditions_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"no \.toml file"):
        KnowledgeBase.load(tmp_path)

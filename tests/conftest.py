"""Loads the trainer package before any test imports TensorFlow, as its legacy-Keras switch demands."""

import os

import hypothesis
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import trainer  # noqa: F401
from schemas.knowledge_base import KnowledgeBase

# No deadlines: a busy machine is no bug. A gate gives the same verdict for the same code; a developer's run explores.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True)
hypothesis.settings.load_profile("gate" if os.environ.get("CI") else "explore")


TOY_EVIDENCE = """\
code,kind,name,question,system,parent,exclusive,only_if,background
fever,symptom,Fever,Do you have a fever?,general,,,,0.1
fever_over_39,symptom,Fever over 39,Was it over 39?,general,fever,,,0.02
cough,symptom,Cough,Do you cough?,respiratory,,,,0.1
runny_nose,symptom,Runny nose,Does your nose run?,ent,,,,0.1
headache,symptom,Headache,Does your head ache?,neurological,,,,0.1
fatigue,symptom,Fatigue,Are you tired?,general,,,,0.1
nausea,symptom,Nausea,Do you feel sick?,gastrointestinal,,,,0.1
chest_pain,symptom,Chest pain,Does your chest hurt?,cardiovascular,,,,0.02
crushing_chest_pain,symptom,Crushing chest pain,Is it crushing?,cardiovascular,chest_pain,,,0.001
sweating,symptom,Sweating,Do you sweat?,general,,,,0.05
mild_pain,symptom,Mild pain,Is the pain mild?,general,,pain_severity,,0.05
severe_pain,symptom,Severe pain,Is the pain severe?,general,,pain_severity,,0.01
vaginal_bleeding,symptom,Vaginal bleeding,Do you bleed?,gynaecological,,,woman !child,0.01
child,risk_factor,Child,Are you under 18?,demographic,,age,,0.25
adult,risk_factor,Adult,Are you 18 or older?,demographic,,age,,0.75
woman,risk_factor,Woman,Are you a woman?,demographic,,sex,,0.5
man,risk_factor,Man,Are you a man?,demographic,,sex,,0.5
pregnant,risk_factor,Pregnant,Are you pregnant?,pregnancy,,,,0.1
smoker,risk_factor,Smoker,Do you smoke?,habit,,,,0.2
"""
TOY_RISK_FACTORS = """\
[pregnant]
child = 0
man = 0

[smoker]
child = 0
"""
TOY_CONDITIONS = """\
[common_cold]
name = "Common cold"
icd10 = "J00"
prevalence = 80
urgency = { Red = 0, Yellow = 0, Green = 0.2, Blue = 0.8 }

[common_cold.evidence]
cough = 0.8
runny_nose = 0.9
fever = 0.3
fever_over_39 = 0.05
headache = 0.3
fatigue = 0.4
mild_pain = 0.3
nausea = 0.02

[heart_attack]
name = "Heart attack"
icd10 = "I21.9"
prevalence = 15
urgency = { Red = 0.8, Yellow = 0.2, Green = 0, Blue = 0 }
red_flags = ["sweating"]
urgent_with = ["smoker"]

[heart_attack.risk_factors]
child = 0
man = 2
woman = 1
smoker = 3

[heart_attack.evidence]
chest_pain = 0.9
crushing_chest_pain = 0.6
sweating = 0.5
nausea = 0.3
fatigue = 0.3
severe_pain = 0.6
mild_pain = 0.2
cough = 0.05

[threatened_miscarriage]
name = "Threatened miscarriage"
icd10 = "O20.0"
prevalence = 5
urgency = { Red = 0.1, Yellow = 0.7, Green = 0.2, Blue = 0 }
red_flags = ["severe_pain", "fever"]
requires = ["pregnant"]

[threatened_miscarriage.risk_factors]
adult = 1

[threatened_miscarriage.evidence]
vaginal_bleeding = 0.95
mild_pain = 0.4
severe_pain = 0.1
nausea = 0.3
fatigue = 0.2
fever = 0.02
sweating = 0.05
headache = 0.1
"""


@pytest.fixture
def toy_knowledge_directory(tmp_path):
    """A knowledge base of 19 pieces of evidence and 3 conditions, to be read and to be broken."""
    directory = tmp_path / "knowledge"
    (directory / "conditions").mkdir(parents=True)
    (directory / "evidence.csv").write_text(TOY_EVIDENCE)
    (directory / "risk_factors.toml").write_text(TOY_RISK_FACTORS)
    (directory / "conditions" / "toy.toml").write_text(TOY_CONDITIONS)
    return directory


@pytest.fixture
def toy_knowledge(toy_knowledge_directory):
    return KnowledgeBase.load(toy_knowledge_directory)

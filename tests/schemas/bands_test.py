"""Numbers become the codes of their bands."""

import pytest

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.simulation.knowledge_base import KnowledgeBase

TEXT = """\
code,kind,name,question,parent,exclusive,band
fever,symptom,F,F?,,,temperature >=38 <45 °C
high_fever,symptom,H,H?,fever,,temperature >39 <45 °C
cold,symptom,C,C?,,,temperature >=20 <35 °C
child,risk_factor,C,C?,,age,age >=0 <18
adult,risk_factor,A,A?,,age,age >=18 <130
fast_pulse,symptom,P,P?,,,pulse >100 <300 if adult|pulse >130 <300 if child
slow_pulse,symptom,P,P?,,,pulse >=20 <=50
"""


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.parse(TEXT, "vocabulary.csv")


@pytest.mark.parametrize(
    ("numbers", "present", "absent"),
    [
        (["temperature=39.5"], ["fever", "high_fever"], ["cold"]),
        (["temperature=39"], ["fever"], ["high_fever", "cold"]),
        (["temperature=100.4F"], ["fever"], ["high_fever", "cold"]),  # 38 °C
        (["temperature=102.2 °F"], ["fever"], ["high_fever", "cold"]),  # 39 °C
        (["temperature=38,9 C"], ["fever"], ["high_fever", "cold"]),
        (["temperature=36,6"], [], ["fever", "cold"]),  # without fever there is no high fever
        (["age=17.9"], ["child"], []),  # who is a child is no adult
        (["pulse=120", "age=40"], ["adult", "fast_pulse"], ["slow_pulse"]),
        (["pulse=120", "child"], ["child"], ["slow_pulse", "fast_pulse"]),
        (["pulse=50"], ["slow_pulse"], []),  # whether it is fast depends on the age
        (["pulse=120"], [], ["slow_pulse"]),
        (["cough", "fever", "temperature=38.2"], ["cough", "fever"], ["high_fever", "cold"]),
    ],
)
def test_a_number_says_in_which_bands_it_lies(vocabulary, numbers, present, absent):
    there, missing, _ = vocabulary.read_numbers(numbers, [])
    assert (there, sorted(missing)) == (present, sorted(absent))


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        (["temperature=101"], "'temperature=101': .* 20 and 45 °C, .*101F"),
        (["temperature=12"], r"'temperature=12': .* 20 and 45 °C \(by"),  # nor in degrees Fahrenheit
        (["temperature=39F"], r"'temperature=39F': .* 20 and 45 °C \(by"),
        (["pulse=99F", "adult"], "'pulse=99F': "),
        (["temperature=45"], "'temperature=45': .* 20 and 45"),
        (["temperature=warm"], "'temperature=warm': "),
        (["temperature=nan"], "'temperature=nan': "),
        (["temperature="], "'temperature=': "),
        (["temperature=38", "temperature=39"], "'temperature=3[89]': .*twice"),
    ],
)
def test_a_number_that_cannot_be_is_refused(vocabulary, numbers, fault):
    with pytest.raises(InputError, match=fault):
        vocabulary.read_numbers(numbers, [])


@pytest.mark.parametrize(
    ("bands", "absent", "refused"),
    [
        (["m >=38 <45"], [36.9, 38 - 14], [45, 46, 23.9, 101]),  # two widths of 7 below
        (["m >=38 <45", "m >39 <45"], [36.9], [45, 23]),
        (["m >100 <350"], [70, 100, 0], [350, 400, -1]),  # nothing below 0 where no band is
        (["m >=38"], [36.9, 0], [-1]),
        (["m <92"], [98, 200], []),
        (["m >=50 <92", "m >=50 <85"], [92, 98], [49, 177]),  # two widths of 42 above
        (["m >=20 <35", "m >=38 <45"], [35, 36.9], [19.9, 45]),
        (["m >=20 <35", "m >=38"], [36.9], [19.9]),
        (["m >=1 <4", "m >=4 <=10"], [], [0, 11]),  # each number between is in a band
    ],
)
def test_outside_the_bands_a_plausible_number_means_absent(bands, absent, refused):
    lines = "".join(f"b{place},symptom,B,B?,,,{band}\n" for place, band in enumerate(bands))
    vocabulary = Vocabulary.parse(TEXT.partition("\n")[0] + "\n" + lines, "v.csv")
    codes = [f"b{place}" for place in range(len(bands))]
    for number in absent:
        there, missing, numbers = vocabulary.read_numbers([f"m={number}"], [])
        assert (there, sorted(missing)) == ([], codes), number
        assert numbers == dict.fromkeys(codes, f"m={number}")
    for number in refused:
        with pytest.raises(InputError, match=rf"'m={number}': .* {', '.join(codes)}"):
            vocabulary.read_numbers([f"m={number}"], [])


def test_a_number_that_means_nothing_without_another_is_refused_with_what_it_needs():
    vocabulary = Vocabulary.parse(TEXT.replace("slow_pulse,symptom,P,P?,,,pulse >=20 <=50\n", ""), "v.csv")
    with pytest.raises(InputError, match=r"'pulse=120': .* adult, child"):
        vocabulary.read_numbers(["pulse=120"], [])


@pytest.mark.parametrize(
    ("band", "fault"),
    [
        ("temperature", "band 'temperature': "),
        ("temperature 38", "band 'temperature 38': "),
        ("temperature >=40 <39 °C", "above 40, not 39"),
        ("temperature >=38 K", "'temperature' .*'°C'"),
        ("temperature >=38 °C|age >3", "'age' .*'temperature'"),
        ("fever >=38", "'fever' .*code"),
        ("sugar >=200 if diabetic", "'diabetic'.* 'if'"),
    ],
)
def test_a_band_that_cannot_be_is_refused(band, fault):
    with pytest.raises(InputError, match=f"vocabulary.csv: evidence 'x': .*{fault}"):
        Vocabulary.parse(f"{TEXT}x,symptom,X,X?,,,{band}\n", "vocabulary.csv")


def test_bands_are_written_as_they_were_read(vocabulary):
    assert vocabulary.to_csv() == TEXT
    assert vocabulary.bands.units == {"temperature": "°C", "age": "", "pulse": ""}
    assert vocabulary.bands.measure_of("high_fever") == "temperature"


@pytest.mark.parametrize(
    ("numbers", "present"),
    [
        (["age=0.1", "heart_rate=150"], ["age_under_3_months"]),
        (["age=34", "heart_rate=150", "temperature=39.4"],
         ["age_30_to_44", "fast_heart_rate", "fever", "fever_over_39"]),
        (["age=80", "heart_rate=40", "temperature=34"], ["age_75_and_over", "slow_heart_rate", "low_body_temperature"]),
    ],
)  # fmt: skip
def test_the_knowledge_base_has_bands_for_age_temperature_and_heart_rate(numbers, present):
    there, _, _ = KnowledgeBase.load().catalogue.vocabulary.read_numbers(numbers, [])
    assert sorted(there) == sorted(present)

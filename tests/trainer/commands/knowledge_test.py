import json

import pytest

import triage_cli


@pytest.fixture
def knowledge(toy_knowledge_directory):
    return lambda *arguments: triage_cli.main(["knowledge", str(toy_knowledge_directory), *arguments])


def test_a_sound_knowledge_base_is_summarised(knowledge, capsys):
    assert knowledge() == 0
    printed = capsys.readouterr().out
    assert "19 pieces of evidence: 13 symptoms and signs, 6 risk factors" in printed
    assert "3 conditions: toy 3" in printed
    assert "no faults" in printed
    assert "not for clinical use" in printed


def test_a_condition_is_printed_in_plain_names(knowledge, capsys):
    assert knowledge("--condition", "heart_attack") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Heart attack (I21.9), toy"
    assert "  urgency: Red 80%, Yellow 20%" in lines
    assert "  more urgent with red flags: Sweating" in lines
    shown = [line.split("%")[1].strip() for line in lines if "%  " in line]
    assert shown[:2] == ["Chest pain", "Crushing chest pain"]  # the most probable first
    assert "         3  Smoker" in lines


def test_all_conditions_can_be_listed_and_counted(knowledge, capsys):
    assert knowledge("--list") == 0
    printed = capsys.readouterr().out
    assert all(code in printed for code in ("common_cold", "heart_attack", "threatened_miscarriage"))
    assert knowledge("--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["conditions_by_system"] == {"toy": 3}

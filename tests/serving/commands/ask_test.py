"""`triage ask` against a real server."""

import json
import re
import socket

import pytest

import triage_cli
from serving.commands.ask import DISCLAIMER
from tests.builders import served


@pytest.fixture
def ask(server, capsys):
    """Runs `triage ask` and returns exit code, standard output and standard error."""

    def run(*arguments):
        code = triage_cli.main(["ask", "--server", server.address, "--timeout", "30", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_an_answer_for_people_shows_decision_values_and_disclaimer(ask):
    code, output, _ = ask("--present", "fever", "--questions-asked", "10", "--model-name", "triage")
    lines = [line.strip() for line in output.splitlines()]
    assert code == 0
    assert lines[0] == "action       Yellow (asking was not possible)"
    assert lines[1] == "best triage  Yellow"
    # 30 columns are 1: 0.5 is 15, 0.75 is 22.5, which rounds to the even 22, and 0.9 is 27.
    for label, value, columns in (("Red", "0.500", 15), ("Yellow", "0.750", 22), ("ask", "0.900", 27)):
        assert any(line.split() == [label, value, "█" * columns] for line in lines)
    assert lines[-2:] == ["model version 3", DISCLAIMER]


def test_unknown_codes_are_shown_where_they_are_allowed(ask):
    code, output, _ = ask("--present", "fever", "gout", "--allow-unknown-codes")
    assert code == 0
    assert re.search("unknown codes.*: gout", output)


def test_an_answer_for_programs_is_json_alone(ask, hand_set, vocabulary):
    code, output, _ = ask("--absent", "smoker", "--questions-asked", "10", "--json", "-")
    answer = json.loads(output)
    assert code == 0
    assert dict(zip(("Red", "Yellow", "Green", "Blue", "ask"), hand_set.no_smoker_q, strict=True)) == pytest.approx(
        answer["q_values"], abs=1e-6
    )
    assert (answer["action"], answer["forced"], answer["next"], answer["novelty"]) == ("Blue", True, "decide", None)
    assert (answer["model_version"], answer["vocabulary_fingerprint"]) == ("3", vocabulary.fingerprint)


def test_an_answer_says_why_where_that_is_asked_for(ask):
    _, output, _ = ask("--present", "chest_pain", "fever")
    assert "for      chest_pain" not in output
    # Q(Red) is .75 with chest pain and .5 without; fever changes Q(Yellow) alone. Red and Yellow
    # are equal, so the more urgent one comes first.
    code, output, _ = ask("--present", "chest_pain", "fever", "--explain")
    assert code == 0
    assert "for      chest_pain (+0.250; without it Yellow)\nunclear  fever (+0.000)\n" in output
    assert "enough for Red: chest_pain\n" in output


def test_rules_and_novelty_are_told_where_a_rule_fired_and_the_evidence_is_novel(guarded_base_path, capsys):
    with served(guarded_base_path) as server:

        def told(*evidence):
            assert triage_cli.main(["ask", "--server", server.address, "--timeout", "60", *evidence]) == 0
            return capsys.readouterr().out

        hot = told("--present", "fever", "smoker")
        assert re.search(r"hot_smoker .*Yellow.*Red.*: Fever in a smoker\.", hot)
        assert "(novelty 1.000)" in hot
        assert not re.search("rule|novelty", told("--absent", "smoker"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--present", "fevr"], r"state\.evidence\[0\]\.code: .*'fevr': .*fever"),
        (["--present", "fever", "--questions-asked", "99999999999"], "not an evidence state: "),
        (["--present", "fever", "--model-name", "adults"], "--model-name adults: .*'adults': .*triage"),
        (["--present", "fever", "--questions", "3000000000"], "--questions 3000000000: .*0 to 10"),
        (["--present", "fever", "--questions", "1", "--interactive"], "--questions: .*--interactive"),
        (["--present", "fever", "--model-name", "\udcff"], r"--model-name '\\udcff': "),
        (["--present", "fever", "--timeout", "0"], "--timeout 0.0: .*above 0"),
        (["--present", "fever", "--timeout", "nan"], "--timeout nan: .*above 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(ask, arguments, complaint):
    code, output, errors = ask(*arguments)
    assert (code, output) == (2, "")
    assert re.match(f"triage ask: error: {complaint}", errors)
    assert errors.count("\n") == 1


def test_a_server_that_cannot_answer_now_says_why(tmp_path, capsys):
    with served(tmp_path) as server:  # without a version
        assert triage_cli.main(["ask", "--server", server.address, "--present", "fever", "--timeout", "30"]) == 1
    assert capsys.readouterr().err.startswith(f"triage ask: error: {server.address}: UNAVAILABLE: ")


def test_a_server_that_does_not_answer_in_time_is_reported(capsys):
    with socket.socket() as silent:  # accepts the connection and sends nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert triage_cli.main(["ask", "--server", address, "--present", "fever", "--timeout", "0.5"]) == 1
    assert f"no answer from {address} within 0.5 s" in capsys.readouterr().err


def test_a_token_goes_to_another_machine_in_plain_text_only_with_insecure(tmp_path, capsys):
    token = "secret"  # noqa: S105
    (tmp_path / "token").write_text(f"{token}\n")
    given = ["--server", "triage.invalid:8500", "--token-file", str(tmp_path / "token"), "--present", "fever"]
    assert triage_cli.main(["ask", *given]) == 2
    error = capsys.readouterr().err
    assert error.startswith("triage ask: error: triage.invalid:8500: ")
    assert "--insecure" in error
    assert token not in error
    assert triage_cli.main(["ask", *given, "--insecure"]) == 1  # there is no such host
    assert "--insecure" not in capsys.readouterr().err


def test_a_token_that_the_client_refuses_is_bad_input_and_not_shown(server, tmp_path, ask):
    (tmp_path / "token").write_text("sec=ret\n")  # RFC 6750 has = at the end only
    code, _, error = ask("--present", "fever", "--token-file", str(tmp_path / "token"))
    assert code == 2
    assert error.startswith("triage ask: error: token: ")
    assert "sec=ret" not in error

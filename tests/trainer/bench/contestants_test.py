import sys

import pytest

from schemas.errors import InputError
from trainer.bench import contestants, task_vignettes
from trainer.bench.settings import Settings


def test_a_python_without_stable_baselines3_is_refused(tmp_path):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    for given in (str(bare), str(tmp_path / "absent")):
        with pytest.raises(InputError, match="expected a Python that can import stable_baselines3"):
            contestants.find_sb3(given)


def test_a_python_with_stable_baselines3_is_used(tmp_path):
    there = tmp_path / "python"
    there.write_text("#!/bin/sh\nexit 0\n")
    there.chmod(0o755)
    assert contestants.find_sb3(str(there)) == str(there)


def test_all_get_the_same_settings_and_stable_baselines3_its_own_python():
    settings = Settings("v.npz")
    commands = contestants.commands(settings, "/other/python")
    assert list(commands) == [*contestants.OURS, *contestants.TF_AGENTS, contestants.SB3, contestants.FLOOR]
    assert {command[3] for command in commands.values()} == {settings.to_json()}
    assert {name for name, command in commands.items() if command[0] != sys.executable} == {contestants.SB3}
    assert contestants.SB3 not in contestants.commands(settings)


@pytest.mark.slow  # long: processes that load and compile; tests/speed_test.py needs as many
def test_contestants_run_as_processes_and_answer_in_every_round(tmp_path):
    task_vignettes.save(tmp_path / "v.npz", task_vignettes.draw(30, 12, seed=0))
    settings = Settings(str(tmp_path / "v.npz"), 12, hidden_sizes=(8, 8), batch_size=4, burn_in_steps=20)
    commands = contestants.commands(settings)
    chosen = {name: commands[name] for name in ("ours: fused", "TF-Agents: one graph")}
    answers = contestants.compete(chosen, 3, 2)
    assert {name: len(given) for name, given in answers.items()} == dict.fromkeys(chosen, 2)
    assert all(answer["seconds"] > 0 and answer["peak_bytes"] > 0 for given in answers.values() for answer in given)

"""A command's pipeline runs on the runner that the user names, and each fault is one line."""

import sys

import pytest

from schemas.beam import runner
from schemas.errors import InputError

needs_beam = pytest.mark.usefixtures("beam")


@pytest.fixture
def beam():
    return pytest.importorskip("apache_beam", reason="needs the extra `beam`")


def test_a_pipeline_runs_to_its_end(beam, tmp_path):
    def build(pipeline):
        _ = pipeline | beam.Create([2, 3]) | beam.Map(lambda number: (tmp_path / str(number)).touch())

    runner.Runner(runner.LOCAL, []).run(build)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]


def test_a_pipeline_is_described_without_a_call_of_its_runner(beam):
    described = runner.Runner("SparkRunner", ["--job_name=j"]).describe(lambda pipeline: pipeline | beam.Create([1]))
    assert described["options"] == {"runner": "SparkRunner", "job_name": "j"}
    assert described["pipeline"]["components"]["transforms"]


def test_a_step_that_fails_is_one_line(beam, tmp_path):
    steps = beam.Create([str(tmp_path / "lost")]) | beam.Map(open)
    with pytest.raises(InputError, match=r"^the Beam pipeline failed on DirectRunner: .*No such file.*lost") as raised:
        runner.Runner(runner.LOCAL, []).run(lambda pipeline: pipeline | steps)
    assert "\n" not in str(raised.value)


@needs_beam
def test_an_unknown_runner_and_an_option_that_beam_refuses_are_one_line():
    with pytest.raises(InputError, match=r"^--runner Walker: Unexpected pipeline runner: Walker"):
        runner.Runner("Walker", []).run(lambda pipeline: None)
    with pytest.raises(InputError, match=r"^--beam-options: argument --direct_running_mode: invalid choice"):
        runner.Runner(runner.LOCAL, ["--direct_running_mode=x"])


def test_an_option_of_the_command_is_not_passed_to_beam():
    runner.check(["--direct_num_workers=2"], ["batch_size"], "score")
    with pytest.raises(InputError, match=r"^--batch-size=9: an option of triage score: give it before --beam-options"):
        runner.check(["--batch-size=9"], ["batch_size"], "score")


def test_without_beam_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # what an import of a package that is not there meets
    with pytest.raises(InputError, match=r"pip install 'dyqn-triage\[beam\]'"):
        runner.Runner(runner.LOCAL, [])

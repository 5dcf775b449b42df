"""A command's pipeline runs on the runner that the user names, and each fault is one line."""

import os
import re
import signal
import sys
import threading

import pytest

from schemas.errors import InputError
from triage_runtime.beam import runner

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


def _refuse(_):
    raise InputError("cases.jsonl: line 3: not JSON")


@pytest.mark.parametrize("mode", ["in_memory", "multi_threading"])  # the latter talks to its workers as to processes
def test_a_fault_that_a_worker_finds_in_the_input_reads_as_without_beam(beam, capfd, mode):
    for _ in range(2):  # the second time in threads that Beam has kept
        with pytest.raises(InputError, match=r"^cases.jsonl: line 3: not JSON$"):
            runner.Runner(runner.LOCAL, [f"--direct_running_mode={mode}"]).run(
                lambda pipeline: pipeline | beam.Create([1]) | beam.Map(_refuse)
            )
        assert capfd.readouterr().err == ""


def _warn(_):
    os.write(2, b"a library warns\n")


@pytest.mark.parametrize(
    ("name", "options", "shown"),
    [
        ("DirectRunner", [], ""),
        ("direct", [], ""),
        ("DirectRunner", ["--default_sdk_harness_log_level=INFO"], "a library warns\n"),
    ],
)
def test_what_workers_of_this_machine_log_is_shown_to_those_who_ask(beam, capfd, name, options, shown):
    runner.Runner(name, options).run(lambda pipeline: pipeline | beam.Create([1]) | beam.Map(_warn))
    assert capfd.readouterr().err == shown


def test_the_log_of_a_pipeline_that_failed_stays(beam, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(element):
        _warn(element)
        raise OSError("the disk is full")

    with pytest.raises(InputError, match="the disk is full") as raised:
        runner.Runner(runner.LOCAL, []).run(lambda pipeline: pipeline | beam.Create([1]) | beam.Map(fail))
    [log] = tmp_path.iterdir()
    assert str(raised.value).endswith(f"; Beam's log is in {log}")
    assert "a library warns" in log.read_text()


@needs_beam
def test_a_job_for_a_template_of_dataflow_is_written_and_nobody_waits_for_it():
    places = ("--project=p", "--region=r", "--temp_location=gs://b/t", "--staging_location=gs://b/s")
    assert runner.Runner("DataflowRunner", [*places, "--template_location=gs://b/job"]).template == "gs://b/job"
    assert runner.Runner("DataflowRunner", places).template is None
    assert runner.Runner("FlinkRunner", ["--template_location=gs://b/job"]).template is None


def _interrupt(_):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    threading.Event().wait(0.3)  # the job goes on


@pytest.mark.parametrize("refused", [False, True])
def test_the_job_of_an_interrupted_command_is_cancelled_or_named(beam, monkeypatch, refused):
    from apache_beam.runners.portability.portable_runner import PipelineResult

    cancelled = []

    def cancel(self, real=PipelineResult.cancel):
        if refused:
            raise OSError("403 no access")
        real(self)
        cancelled.append(self.state)

    monkeypatch.setattr(PipelineResult, "cancel", cancel)
    local = ["--job_endpoint=embed", "--environment_type=LOOPBACK"]
    ends = pytest.raises(InputError) if refused else pytest.raises(KeyboardInterrupt)
    with ends as raised:
        runner.Runner("PortableRunner", local).run(
            lambda pipeline: pipeline | beam.Create([1]) | beam.Map(_interrupt), folder="gs://b/.out.1"
        )
    if refused:
        message = r"interrupted; the job \S+ on PortableRunner may be .*\(403 no access\): cancel it there, "
        assert re.fullmatch(message + r"then delete gs://b/\.out\.1", str(raised.value))
    else:
        assert cancelled == ["CANCELLED"]


@pytest.mark.parametrize(("module", "raised"), [("google.api_core.exceptions", InputError), ("ours", LookupError)])
def test_a_store_that_refuses_is_one_line_and_a_fault_of_ours_is_not_hidden(beam, module, raised):
    error = type("Forbidden", (LookupError,), {"__module__": module})("403 no access\nto the bucket")

    def fail(_):
        raise error

    with pytest.raises(raised, match="403 no access"):
        runner.Runner(runner.LOCAL, []).run(lambda pipeline: pipeline | beam.Create([1]) | beam.Map(fail))


@needs_beam
def test_an_unknown_runner_and_an_option_that_beam_refuses_are_one_line():
    with pytest.raises(InputError, match=r"^--runner Walker: Unexpected pipeline runner: Walker"):
        runner.Runner("Walker", []).check()
    with pytest.raises(InputError, match=r"^--runner DataflowRunner: .*Missing required option: project"):
        runner.Runner("DataflowRunner", ["--region=r"]).check()
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

"""A job's workers write what its pipeline says, and a dry run shows it without them."""

import json
from fractions import Fraction

import pytest

from schemas.beam.runner import Runner
from schemas.errors import InputError
from trainer.runs.assembly_job import AssemblyJob
from trainer.runs.output import OutputDirectory
from trainer.vignettes.passes import WriteOptions

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

import apache_beam as beam

from trainer.vignettes.assembly import assemble
from trainer.vignettes.blocks import Block


@pytest.fixture
def job():
    """A job whose input has a fault."""

    def build(pipeline, plan):
        assemble(pipeline | beam.Create([Block("1", fault="faulty")]), plan)

    return AssemblyJob(Runner("DirectRunner", []), WriteOptions(Fraction(1, 10), 3, 50, True), build, "lines", True)


def test_what_the_workers_found_is_returned(job, tmp_path):
    with OutputDirectory(tmp_path / "out", overwrite=False) as output:
        assert job.run(output)["fault"] == "faulty"


def test_a_dry_run_shows_the_job_and_its_pipeline(job, tmp_path, capsys):
    job.print(tmp_path / "out", overwrite=False, vignettes=7)
    sent = json.loads(capsys.readouterr().out)
    assert sent["job"]["how"] == {"test_fraction": "1/10", "seed": 3, "shard_size": 50, "compressed": True}
    assert (sent["job"]["unit"], sent["job"]["allow_rejects"], sent["job"]["vignettes"]) == ("lines", True, 7)
    assert sent["job"]["staging"].startswith(f"{tmp_path}/.out.")
    assert sent["options"] == {"runner": "DirectRunner"}
    assert not list(tmp_path.iterdir())


def test_a_dry_run_refuses_what_the_job_would_refuse(job, tmp_path):
    (tmp_path / "stats.json").touch()
    with pytest.raises(InputError, match="not empty: choose another directory, or give --overwrite"):
        job.print(tmp_path, overwrite=False)

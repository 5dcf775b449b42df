"""`triage vertex submit`: sends a job or model, described as in deploy/vertex/, to Vertex AI, or prints the request."""

import argparse
import dataclasses
import json
import pathlib
import sys

from rich.console import Console

from trainer.cloud.vertex_request import Project, read_request, send
from triage_runtime.command_line import options
from triage_runtime.command_line.options import option
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations

_FOLLOWING = {
    "CustomJob": "gcloud ai custom-jobs stream-logs {name} --region {region}",
    "HyperparameterTuningJob": "gcloud ai hp-tuning-jobs stream-logs {name} --region {region}",
    "Model": "gcloud ai endpoints deploy-model ENDPOINT --model {name} --display-name NAME --region {region}",
}


@dataclasses.dataclass(frozen=True)
class SubmitOptions:
    """The options of `triage vertex submit`, see its help."""

    file: pathlib.Path
    project: str = option("Google Cloud project; ${PROJECT} in the file")
    region: str = option("region such as europe-west4; ${REGION} in the file")
    bucket: str | None = option("bucket, without gs://; ${BUCKET} in the file")
    display_name: str | None = option("name of the job or model (default: the file's)", metavar="NAME")
    dry_run: bool = option("print the request as JSON and send nothing; needs no credentials")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage vertex`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    submit = actions.add_parser("submit", help="send a training job, a tuning job or a model")
    submit.add_argument(
        "file",
        type=locations.source,
        metavar="FILE",
        help="YAML: a CustomJobSpec, a HyperparameterTuningJob, or a model to upload, as in deploy/vertex/",
    )
    options.add_arguments(submit, SubmitOptions)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        InputError: the file is invalid, the extra is missing, or the service refuses.
    """
    given = options.read(SubmitOptions, arguments)
    values = {"PROJECT": given.project, "REGION": given.region}
    if given.bucket is not None:
        values["BUCKET"] = given.bucket.removeprefix("gs://").rstrip("/")
    request = read_request(given.file, Project(given.project, given.region), given.display_name, values)
    if given.dry_run:
        sys.stdout.write(json.dumps(request.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return 0
    name = send(request)
    sys.stdout.write(f"{name}\n")
    say_result(Console(stderr=True), name, _FOLLOWING[request.kind].format(name=name, region=given.region))
    return 0

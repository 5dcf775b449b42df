"""`triage vertex submit`: sends a job or model, described as in deploy/vertex/, to Vertex AI, or prints the request."""

import argparse
import json
import sys

from schemas import locations
from trainer.cloud.vertex_request import Place, read_request, send


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
    submit.add_argument("--project", required=True, help="Google Cloud project; ${PROJECT} in the file")
    submit.add_argument("--region", required=True, help="region such as europe-west4; ${REGION} in the file")
    submit.add_argument("--bucket", help="bucket, without gs://; ${BUCKET} in the file")
    submit.add_argument("--display-name", metavar="NAME", help="name of the job or model (default: the file's)")
    submit.add_argument(
        "--dry-run", action="store_true", help="print the request as JSON and send nothing; needs no credentials"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        InputError: the file is invalid, the extra is missing, or the service refuses.
    """
    values = {"PROJECT": arguments.project, "REGION": arguments.region}
    if arguments.bucket is not None:
        values["BUCKET"] = arguments.bucket.removeprefix("gs://").rstrip("/")
    place = Place(arguments.project, arguments.region)
    request = read_request(arguments.file, place, arguments.display_name, values)
    if arguments.dry_run:
        sys.stdout.write(json.dumps(request.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return 0
    sys.stdout.write(f"{send(request)}\n")
    return 0

"""Turns a file as in deploy/vertex/ into a request of the Vertex AI API, checked against the API's messages."""

import contextlib
import pathlib
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.errors import InputError
from schemas.text_file import read_text
from triage_runtime.command_line.extras import missing

if TYPE_CHECKING:
    import grpc

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_KINDS = {
    # a key that only this kind of file has: (collection and method of the API, name of the message)
    "workerPoolSpecs": ("customJobs", "CustomJob"),
    "studySpec": ("hyperparameterTuningJobs", "HyperparameterTuningJob"),
    "model": ("models:upload", "Model"),
}


class Project(NamedTuple):
    """The destination of a request."""

    project: str
    region: str

    @property
    def parent(self) -> str:
        """The name of the location in the API."""
        return f"projects/{self.project}/locations/{self.region}"

    @property
    def endpoint(self) -> str:
        """The host that answers for the region."""
        return f"{self.region}-aiplatform.googleapis.com"


class ApiRequest(NamedTuple):
    """One call of the API."""

    place: Project
    method: str  # the end of its URL
    kind: str  # name of the message
    message: Any  # of google.cloud.aiplatform_v1.types

    def to_dict(self) -> dict[str, Any]:
        """Returns the call in REST form: `method`, `url` and `body`."""
        body = type(self.message).to_dict(
            self.message, use_integers_for_enums=False, including_default_value_fields=False,
            preserving_proto_field_name=False,
        )  # fmt: skip
        url = f"https://{self.place.endpoint}/v1/{self.place.parent}/{self.method}"
        return {"method": "POST", "url": url, "body": {"model": body} if self.kind == "Model" else body}


def read_request(path: pathlib.Path, place: Project, display_name: str | None, values: Mapping[str, str]) -> ApiRequest:
    """Returns the request of a file.

    The file is YAML: a CustomJobSpec, a HyperparameterTuningJob or the body of models.upload. `values` are those of
    `${NAME}` in it. The default of `display_name` is that in the file, or else the file's name without its ending.

    Raises:
        InputError: the extra is not installed; the file cannot be read, is not one of the three, has a field or value
            unknown to the API, or a `${NAME}` without a value.
    """
    with _the_extra():
        import yaml
        from google.cloud.aiplatform_v1 import types
        from google.protobuf import json_format
    try:
        content = yaml.safe_load(_filled(path, read_text(path), values))
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    keys = [key for key in _KINDS if isinstance(content, dict) and key in content]
    if len(keys) != 1:
        raise InputError(f"{path}: expected one of the keys {', '.join(_KINDS)} at the top: see deploy/vertex/")
    if not content[keys[0]] or not isinstance(content[keys[0]], dict | list):
        raise InputError(f"{path}: expected fields below {keys[0]}: see deploy/vertex/")
    method, kind = _KINDS[keys[0]]
    body = {"workerPoolSpecs": {"jobSpec": content}, "model": content.get("model")}.get(keys[0], content)
    message = getattr(types, kind)()
    try:
        json_format.ParseDict(body, type(message).pb(message))
    except json_format.ParseError as error:
        raise InputError(f"{path}: not a {kind} of Vertex AI: {' '.join(str(error).split())}") from error
    message.display_name = display_name or message.display_name or path.stem
    return ApiRequest(place, method, kind, message)


def send(request: ApiRequest, channel: "grpc.Channel | None" = None) -> str:
    """Sends `request` and returns the name of the created resource.

    By default through a channel to the region's endpoint, with the machine's own credentials.

    Raises:
        InputError: there are no credentials, or the service refuses.
    """
    with _the_extra():
        from google.api_core import exceptions
        from google.auth import exceptions as auth
        from google.cloud import aiplatform_v1 as api
    client_class: Any = api.ModelServiceClient if request.kind == "Model" else api.JobServiceClient
    try:
        if channel is None:
            client = client_class(client_options={"api_endpoint": request.place.endpoint})
        else:
            client = client_class(transport=client_class.get_transport_class("grpc")(channel=channel))
        parent, message = request.place.parent, request.message
        if request.kind == "CustomJob":
            return client.create_custom_job(parent=parent, custom_job=message).name
        if request.kind == "HyperparameterTuningJob":
            return client.create_hyperparameter_tuning_job(parent=parent, hyperparameter_tuning_job=message).name
        return client.upload_model(parent=parent, model=message).result().model
    except auth.GoogleAuthError as error:
        raise InputError(
            f"no credentials for Vertex AI: {' '.join(str(error).split())}: run gcloud auth application-default login"
        ) from error
    except exceptions.GoogleAPIError as error:
        raise InputError(f"{request.place.endpoint} refused: {' '.join(str(error).split())}") from error


def _filled(path: pathlib.Path, text: str, values: Mapping[str, str]) -> str:
    for name in _PLACEHOLDER.findall(text):
        if name not in values:
            known = ", ".join(f"--{each.lower()}" for each in values)
            raise InputError(f"{path}: ${{{name}}} has no value: give --{name.lower()} (given: {known})")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


@contextlib.contextmanager
def _the_extra() -> Iterator[None]:
    """Imports the packages of the extra without their warnings about future versions of grpcio."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            yield
        except ImportError as error:
            raise missing(str(error.name), "triage vertex", "vertex") from error

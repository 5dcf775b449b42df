"""The settings of a server, their defaults, and a TOML file of them, such as `http-port = 8501`."""

import dataclasses
import difflib
import functools
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from schemas.text_file import parse_toml, read_text
from serving.security import VersionKey, is_loopback
from triage_runtime.command_line.extras import is_installed
from triage_runtime.command_line.options import check_bounds, flag

ENGINES = ("saved-model", "litert", "tensorflow-serving")
DEFAULT_ENGINE = "saved-model" if is_installed("tensorflow") else "litert"
LOG_FORMATS = ("text", "json")


def _field(default: Any, text: str, **options: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": text, **options})


@dataclasses.dataclass(frozen=True)
class ServeConfig:
    """Settings of `triage serve`: a field's name is its option, and its metadata are arguments of the parser.

    Those without metadata are no options, because nobody has to change them; see docs/reference.md.

    Raises:
        InputError: a setting is out of its range.
    """

    # Loopback: other machines get in only on request.
    host: str = _field("127.0.0.1", "address to listen on; 0.0.0.0 listens on all addresses")
    port: int = _field(8500, "port to listen on; 0 takes any free port")
    reuse_port: bool = _field(
        False, "share --port and --http-port with other servers that also have this option (Linux)"
    )
    tls_certificate: str = _field("", "file of the server's certificate, in PEM format; clients must then use TLS")
    tls_key: str = _field("", "file of the certificate's private key, in PEM format")
    tls_client_ca: str = _field(
        "", "file of root certificates, in PEM format; one of them must have signed each client's certificate"
    )
    tokens: str = _field("", "file of tokens, one per line; every call except health checks must carry one")
    metrics_tokens: bool = _field(False, "serve the metrics only to tokens with the role metrics; needs --tokens")
    insecure: bool = _field(False, "allow plain text on addresses other than loopback")
    model_name: str = _field("triage", "name of the model, for clients that choose one")
    engine: str = _field(
        DEFAULT_ENGINE,
        "what runs the model: saved-model (in this process), litert (the same without TensorFlow, and without "
        "TensorFlow Serving's services) or tensorflow-serving (another server)",
        choices=ENGINES,
    )
    tf_serving: str = _field("", "HOST:PORT of TensorFlow Serving, for --engine tensorflow-serving")
    litert: bool = _field(
        True,
        "run batches of up to 64 states with LiteRT and larger ones with the SavedModel; --no-litert: all with it",
    )
    require_signature: str = _field(
        "",
        "file of a public Ed25519 key, in PEM format; the server loads only versions signed with its private key",
    )
    http_port: int = _field(-1, "port for the HTTP API; 0 takes any free port, -1 opens none")
    cors_origins: str = _field(
        "", "origins, separated by commas, whose pages may call the HTTP API, such as https://triage.example.org"
    )
    fhir: str = _field(
        "",
        "public address of the FHIR API, such as https://triage.example.org/fhir; served at /fhir on --http-port",
    )
    cds_codes: str = _field(
        "", "CSV file that maps FHIR codes to evidence; CDS Hooks are served at /cds-services on --http-port"
    )
    cds_feedback: str = _field("", "directory for cards and clinicians' feedback on them, with patients' evidence")
    metrics_port: int = _field(-1, "HTTP port for Prometheus metrics; 0 takes any free port, -1 opens none")
    metrics_host: str = _field("127.0.0.1", "address to listen on for --metrics-port")
    log_format: str = _field("text", "format of the log: text, or json with one object per line", choices=LOG_FORMATS)
    log_calls: bool = _field(False, "log each call with its method, status, duration and version, without evidence")
    probe_port: int = _field(
        -1, "separate port for health checks, in plain text and without tokens; 0 takes any free port, -1 opens none"
    )
    traces: str = _field("", "name of the OpenTelemetry exporter for traces, such as console")
    audit_log: str = _field("", "directory in which to record the answers as TFRecords, with patients' evidence")
    audit_percent: float = _field(100.0, "percentage of answers to record, drawn at random")
    audit_files: int = _field(0, "number of record files to keep; older ones are deleted; 0 keeps all")
    poll_seconds: float = _field(
        2.0, "seconds between checks for new and deleted versions and models; 0 checks only at the start"
    )
    drain_seconds: float = _field(
        0.0, "seconds after SIGTERM during which the server still accepts calls but reports NOT_SERVING"
    )
    grace_seconds: float = _field(10.0, "seconds that calls have to finish after SIGTERM or --drain-seconds")

    http_host: str = ""
    """Address to listen on for HTTP, where it is not `host`: Vertex AI calls HTTP alone from outside."""
    max_workers: int = 64
    """Threads for large requests, Predict and other work that blocks: more would only wait for the cores."""
    max_interviews: int = 32
    """Interviews in progress: each lasts for minutes, and keeps its version loaded."""
    max_waiting: int = 256
    """Calls that may wait beyond the workers and the interviews: some 4,000 are answered in a second."""
    max_pending_bytes: int = 32 * 1024 * 1024
    """Bytes of large requests and of unread answers: parsed, they take ten times as much memory."""
    max_pending_states: int = 16 * 1024
    """States of large requests that may wait: 16 batches of the largest size."""
    max_streams: int = 64
    """Calls in progress on a connection: below `max_waiting`, so that one connection cannot fill the server; and gRPC
    hands over calls in their order, so that those of a hundred connections keep others waiting for a second."""
    max_connections: int = 256
    """Connections to each port: with `max_streams` open calls of 27 KB on each they hold 0.45 GB."""
    silence_seconds: float = 20.0
    """Seconds without a sign of life, or of the rest of its request, after which a client is disconnected."""
    max_batch: int = 1024
    """States in one call: more than a caller has at a time; `triage score` is for files of cases."""
    max_evidence: int = 1024
    """Pieces of evidence in a state, or the vocabulary's size if larger: many times what is known of a patient."""
    max_message_bytes: int = 4 * 1024 * 1024
    """Bytes of a request: gRPC's own default, which clients and proxies share."""

    def __post_init__(self) -> None:
        if not self.host:
            raise InputError("--host: expected a host name or an address")
        if not self.model_name:
            raise InputError("--model-name: expected a name")
        check_bounds("port", self.port, 0, 65535)
        check_bounds("audit_files", self.audit_files, 0)
        for name in ("http_port", "metrics_port", "probe_port"):
            if not -1 <= getattr(self, name) <= 65535:
                raise InputError(
                    f"{flag(name)} {getattr(self, name)}: expected a number from 0 to 65535, or -1 for none"
                )
        for name in ("poll_seconds", "drain_seconds", "grace_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{flag(name)} {getattr(self, name)}: expected a number of seconds, 0 or more")
        for option, given in (
            ("--cors-origins", self.cors_origins), ("--fhir", self.fhir), ("--cds-codes", self.cds_codes)
        ):  # fmt: skip
            if given and self.http_port < 0:
                raise InputError(f"{option} needs --http-port: also give that option")
        if self.fhir and not self.fhir.startswith(("https://", "http://")):
            raise InputError(f"--fhir {self.fhir}: expected an address, such as https://triage.example.org/fhir")
        if self.cds_feedback and not self.cds_codes:
            raise InputError("--cds-feedback needs --cds-codes: also give that option")
        for name, choices in (("log_format", LOG_FORMATS), ("engine", ENGINES)):
            if getattr(self, name) not in choices:
                raise InputError(f"{flag(name)} {getattr(self, name)}: expected one of {', '.join(choices)}")
        if not 0 < self.audit_percent <= 100:
            raise InputError(f"--audit-percent {self.audit_percent}: expected a number above 0, up to 100")
        if self.metrics_tokens and not (self.tokens and self.metrics_port >= 0):
            raise InputError("--metrics-tokens needs --tokens and --metrics-port: also give those options")
        self._check_tls()
        self._check_engine()
        _ = self.version_key  # report a faulty file before the port is taken
        if self.reuse_port and sys.platform != "linux":
            raise InputError("--reuse-port: only Linux shares a port among servers: leave out this option")

    @functools.cached_property
    def version_key(self) -> VersionKey | None:
        """The key with which versions must be signed, None if they need not be."""
        path = self.require_signature
        return VersionKey.read(pathlib.Path(path)) if path else None

    @property
    def encrypted(self) -> bool:
        """Whether the server uses TLS."""
        return bool(self.tls_certificate)

    def _check_tls(self) -> None:
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise InputError("--tls-certificate and --tls-key need each other: give both or neither")
        if self.tls_client_ca and not self.encrypted:
            raise InputError("--tls-client-ca needs TLS: also give --tls-certificate and --tls-key")
        if self.encrypted and self.insecure:
            raise InputError("--insecure means plain text: leave out this option, or --tls-certificate and --tls-key")
        for host in (self.host, self.http_host or self.host):
            if not (self.encrypted or self.insecure or is_loopback(host)):
                raise InputError(
                    f"--host {host}: others on the network could read patients' evidence: give --tls-certificate and "
                    "--tls-key, or --insecure to listen there in plain text"
                )
        if self.metrics_port >= 0 and not (self.encrypted or self.insecure or is_loopback(self.metrics_host)):
            raise InputError(
                f"--metrics-host {self.metrics_host}: others on the network could read the metrics: give "
                "--tls-certificate and --tls-key, or --insecure to listen there in plain text"
            )

    def _check_engine(self) -> None:
        if self.engine == "litert" and not self.litert:
            raise InputError("--no-litert: not with --engine litert: leave out one of them")
        remote = self.engine == "tensorflow-serving"
        if remote and not re.fullmatch(r".+:\d+", self.tf_serving):
            raise InputError(f"--tf-serving {self.tf_serving!r}: expected the HOST:PORT of the TensorFlow Serving")
        if remote and self.require_signature:
            raise InputError(
                "--require-signature: not with --engine tensorflow-serving, which loads versions by itself"
            )
        if self.tf_serving and not remote:
            raise InputError("--tf-serving needs --engine tensorflow-serving: also give that option")
        if remote and self.poll_seconds == 0:
            raise InputError("--poll-seconds 0: --engine tensorflow-serving needs a number of seconds above 0")


OPTIONS = tuple(field for field in dataclasses.fields(ServeConfig) if field.metadata)
"""The settings that are options."""

OTHERS: Mapping[str, type] = {
    "model_base_path": str, "model_config_file": str, "version": int, "label": list,
}  # fmt: skip
"""The options that are no settings of ServeConfig, by their names in the code."""
_EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    list: "a list of texts in quotes",
}


def read_settings(path: pathlib.Path) -> dict[str, Any]:
    """Returns the options in a file by their names in the code; their ranges are not checked.

    Raises:
        InputError: the file cannot be read, is not TOML, or has an unknown option or one of another type.
    """
    table = parse_toml(read_text(path, "--config"), f"--config {path}")
    types = {**OTHERS, **{field.name: type(field.default) for field in OPTIONS}}
    options = {name.replace("_", "-"): (name, kind) for name, kind in types.items()}
    settings: dict[str, Any] = {}
    for option, value in table.items():
        if option not in options:
            near = difflib.get_close_matches(option, options, 1)
            hint = (
                f"did you mean {near[0]!r}?" if near else "see triage serve --help, and leave out the dashes before it"
            )
            raise InputError(f"--config {path}: no option {option!r}: {hint}")
        name, kind = options[option]
        if not _fits(value, kind):
            raise InputError(f"--config {path}: {option}: expected {_EXPECTED[kind]}, got {value!r}")
        settings[name] = float(value) if kind is float else value
    return settings


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind

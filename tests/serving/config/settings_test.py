"""The settings of a server and their ranges."""

import pytest

from schemas.errors import InputError
from serving.config.settings import ServeConfig


def test_a_server_is_closed_to_other_machines_by_default():
    assert ServeConfig().host == "127.0.0.1"


def test_by_default_open_calls_take_less_than_a_gigabyte():
    """gRPC takes 27 KB for each, before a token is read."""
    assert ServeConfig().max_streams * ServeConfig().max_connections * 27e3 < 1e9


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"host": ""}, "--host"),
        ({"model_name": ""}, "--model-name"),
        ({"port": 65536}, "--port 65536"),
        ({"poll_seconds": float("inf")}, "--poll-seconds inf"),
        ({"metrics_port": -2}, "--metrics-port -2"),
        ({"audit_percent": float("nan")}, "--audit-percent nan"),
        ({"audit_files": -1}, "--audit-files -1"),
        ({"log_format": "xml"}, "--log-format xml"),
        ({"drain_seconds": -1.0}, "--drain-seconds -1.0"),
        ({"grace_seconds": float("nan")}, "--grace-seconds nan"),
    ],
)
def test_a_setting_out_of_range_is_reported_with_its_option(setting, complaint):
    with pytest.raises(InputError, match=f"^{complaint}: expected"):
        ServeConfig(**setting)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"engine": "other"}, "--engine other: expected one of saved-model, litert, tensorflow-serving"),
        ({"engine": "litert", "litert": False}, "--no-litert: not with --engine litert"),
        ({"engine": "tensorflow-serving"}, "--tf-serving '': expected the HOST:PORT"),
        ({"engine": "tensorflow-serving", "tf_serving": "host"}, "--tf-serving 'host': expected the HOST:PORT"),
        ({"tf_serving": "host:8500"}, "--tf-serving needs --engine tensorflow-serving"),
        (
            {"engine": "tensorflow-serving", "tf_serving": "host:8500", "require_signature": "public.pem"},
            "--require-signature: not with --engine tensorflow-serving",
        ),
        ({"require_signature": "nowhere"}, "--require-signature nowhere: cannot read"),
        (
            {"engine": "tensorflow-serving", "tf_serving": "host:8500", "poll_seconds": 0.0},
            "--poll-seconds 0: --engine tensorflow-serving needs",
        ),
    ],
)
def test_the_settings_of_the_engine_fit_together(setting, complaint):
    with pytest.raises(InputError, match=f"^{complaint}"):
        ServeConfig(**setting)


PAIR = {"tls_certificate": "server.pem", "tls_key": "server.key"}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"tls_certificate": "server.pem"}, "--tls-certificate and --tls-key need each other"),
        ({"tls_client_ca": "ca.pem"}, "--tls-client-ca needs TLS: also give --tls-certificate"),
        ({"insecure": True, **PAIR}, "--insecure means plain text: leave out this option"),
    ],
)
def test_the_settings_of_tls_fit_together(setting, complaint):
    with pytest.raises(InputError, match=f"^{complaint}"):
        ServeConfig(**setting)


@pytest.mark.parametrize("host", ["::", "10.0.0.7", "triage.example.org"])
def test_other_machines_get_in_over_tls_or_with_insecure(host):
    with pytest.raises(InputError, match=f"^--host {host}: .* give --tls-certificate and --tls-key, or --insecure"):
        ServeConfig(host=host)
    assert ServeConfig(host=host, **PAIR).encrypted
    assert not ServeConfig(host=host, insecure=True).encrypted


def test_metrics_stay_on_this_machine_unless_encrypted_or_insecure():
    with pytest.raises(InputError, match=r"^--metrics-host ::: .* give --tls-certificate and --tls-key, or --insecure"):
        ServeConfig(metrics_port=0, metrics_host="::")
    assert ServeConfig(metrics_host="::").metrics_port == -1  # no port
    assert ServeConfig(metrics_port=0, metrics_host="::", **PAIR).encrypted
    assert not ServeConfig(metrics_port=0, metrics_host="::", insecure=True).encrypted


def test_a_faulty_batching_file_is_reported_at_the_start(tmp_path):
    path = tmp_path / "batching.txt"
    path.write_text("max_batch_size { value: 0 }")
    with pytest.raises(InputError, match="max_batch_size 0: expected a whole number from 1"):
        ServeConfig(batching_parameters_file=str(path))

"""The Compose file: valid by its schema, hardened, and in accord with the server; deploy_chart_test.py compares."""

import json
import pathlib

import jsonschema
import pytest
import yaml

from serving.commands.serve import END_SECONDS

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "serving"
COMPOSE = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())


def test_the_compose_file_is_valid_by_the_compose_specification():
    schema = json.loads((pathlib.Path(__file__).parent / "compose_specification" / "compose-spec.json").read_text())
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


@pytest.mark.parametrize("name", ["in-process", "front", "model-server"])
def test_no_composed_service_is_root_or_writes_to_its_image(name):
    service = COMPOSE["services"][name]
    assert service["user"] == "65532:65532"
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(volume["read_only"] for volume in service["volumes"])
    assert service["image"].rpartition(":")[2].count(".") == 2  # no version that moves
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}


def test_the_composed_services_have_time_to_drain(parsed):
    for name in ("in-process", "front"):
        config = parsed(COMPOSE["services"][name]["command"])
        period = int(COMPOSE["services"][name]["stop_grace_period"].removesuffix("s"))
        assert period > config.drain_seconds + config.grace_seconds + END_SECONDS


def test_nobody_but_the_server_in_front_reaches_the_model_server():
    behind = COMPOSE["services"]["model-server"]
    assert "--port=8500" in behind["command"]
    assert "ports" not in behind
    assert behind["networks"] == ["models"]
    assert COMPOSE["networks"]["models"]["internal"]
    assert "models" in COMPOSE["services"]["front"]["networks"]


def test_every_file_that_a_service_mounts_is_there():
    [config] = [
        each["source"] for each in COMPOSE["services"]["model-server"]["volumes"] if "MODELS" not in each["source"]
    ]
    assert {path.suffix for path in (DEPLOY / config).iterdir()} == {".config"}

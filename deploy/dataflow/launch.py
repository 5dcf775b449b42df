"""What the launcher of the Flex Template runs: `triage score`, with the template's parameters as its options.

The launcher gives every argument as --name=value, in any order: the template's parameters, and the options of Beam that
it sets itself, such as --template_location, to which the job is written.
"""

import json
import pathlib
import sys
from collections.abc import Sequence

import triage_cli

COMMAND = "score"
METADATA = pathlib.Path(__file__).with_name("metadata.json")
IMAGE = "--sdk_container_image"


def command_line(given: Sequence[str]) -> list[str]:
    """Returns the arguments of `triage` for those of the launcher.

    A parameter without a value counts as not given: the console sends those that were left empty.
    """
    parameters = {each["name"]: each for each in json.loads(METADATA.read_text(encoding="utf-8"))["parameters"]}
    ours, beams = [], []
    for argument in given:
        name, _, value = argument.removeprefix("--").partition("=")
        option = f"--{name.replace('_', '-')}"
        if name == "runner":
            ours.append(argument)
        elif name not in parameters:
            beams.append(argument)
        elif parameters[name].get("paramType") == "BOOLEAN":
            ours += [option] if value == "true" else []
        elif name == "input":
            ours += [option, *value.split(",")]
        elif value:
            ours.append(f"{option}={value}")
    return [COMMAND, *ours, "--beam-options", *beams]


def main(given: Sequence[str]) -> int:
    """Writes the job, and returns the exit code."""
    if not any(argument.startswith(f"{IMAGE}=") for argument in given):
        sys.stderr.write(f"no {IMAGE}: start the template with --parameters {IMAGE[2:]}=IMAGE, its own image\n")
        return triage_cli.BAD_INPUT
    return triage_cli.main(command_line(given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

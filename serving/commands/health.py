"""`triage health`: checks whether a server can answer, for scripts and for probes that run a command."""

import argparse
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.client import channel
from triage_runtime.command_line import json_output, options

NOT_SERVING = 1
_WHOLE_SERVER = health_pb2.HealthCheckRequest()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage health`."""
    channel.add_arguments(parser, channel.ServerOptions)
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the status that the server reports.

    Returns:
        0 for SERVING, 1 for any other status or no answer.

    Raises:
        InputError: an option is wrong.
    """
    connection = options.read(channel.ServerOptions, arguments)
    credentials = connection.credentials()
    try:
        with channel.open_channel(connection.server, credentials) as opened:
            response = health_pb2_grpc.HealthStub(opened).Check(_WHOLE_SERVER, timeout=connection.timeout)
    except grpc.RpcError as error:
        sys.stderr.write(f"triage health: error: {_failure(error, connection)}\n")
        return NOT_SERVING
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
    if arguments.json != "-":
        sys.stdout.write(f"{status}\n")
    json_output.write({"status": status}, arguments.json)
    return 0 if response.status == health_pb2.HealthCheckResponse.SERVING else NOT_SERVING


def _failure(error: grpc.RpcError, connection: channel.ServerOptions) -> str:
    """Returns one line on why there is no answer, and what to do."""
    details = " ".join((error.details() or "no details").split())
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return channel.failure(connection.server, details)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from {connection.server} within {connection.timeout:g} s: try again, or raise --timeout"
    return f"{connection.server}: {error.code().name}: {details}"

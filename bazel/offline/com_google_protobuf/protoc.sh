#!/bin/sh
exec python3 -m grpc_tools.protoc "$@"

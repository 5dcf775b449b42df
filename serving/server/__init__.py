"""The server: its gRPC services and its ports."""

"""How calls reach the server: ports, the event loop, limits, and errors as gRPC statuses."""

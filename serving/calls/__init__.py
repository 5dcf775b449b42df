"""How calls reach the server: listening, the event loop, limits, errors as gRPC statuses."""

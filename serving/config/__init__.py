"""Settings of a server: their defaults, a file of them, batching parameters, and the variables of Vertex AI."""

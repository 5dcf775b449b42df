"""Settings of a server: their defaults, a file of them, and the variables of Vertex AI."""

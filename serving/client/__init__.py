"""A client of a server: its channel, and questions answered in a terminal."""

"""The names, orders and file formats that the trainer and the server share."""

VERSION = "0.1.0"
"""The release, of all distributions of this repository, which read it from here."""

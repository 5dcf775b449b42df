"""The tables that an assessor asks for, filled from the files of a version."""

"""Files on this machine and in object stores."""

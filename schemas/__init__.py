"""The names, orders and file formats that the trainer and the server share."""

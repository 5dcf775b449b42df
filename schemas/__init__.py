"""What data looks like: the one home of names, orders and formats that the trainer and the server share."""

"""What commands of the trainer and of the server stand on: storage, the command line, LiteRT."""

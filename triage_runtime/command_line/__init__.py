"""Options, figures and what a command writes to the terminal."""

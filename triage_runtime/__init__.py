"""What commands of the trainer and of the server stand on: storage, the command line, LiteRT.

It has a package of its own, as neither of them imports the other, and `schemas` only names things.
"""

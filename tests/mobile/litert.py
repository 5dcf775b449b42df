"""Runs a TFLite file for the stand-ins for LiteRT in Kotlin's and Swift's programs.

First it prints a line for each tensor, SIGNATURE SIDE NAME DTYPE SHAPE, and an empty one. Then each line that it reads
is SIGNATURE NAME=BYTES ..., the inputs as hexadecimal digits, and each that it prints NAME=BYTES ..., the outputs.
"""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1])
runners = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}
inputs = {name: runner.get_input_details() for name, runner in runners.items()}
for signature, runner in runners.items():
    for side, tensors in (("input", inputs[signature]), ("output", runner.get_output_details())):
        for name, tensor in tensors.items():
            shape = "x".join(map(str, tensor["shape"]))
            print(signature, side, name, np.dtype(tensor["dtype"]).name, shape)
print(flush=True)
for line in sys.stdin:
    signature, *given = line.split()
    values = {}
    for name, digits in (each.split("=") for each in given):
        tensor = inputs[signature][name]
        values[name] = np.frombuffer(bytes.fromhex(digits), tensor["dtype"]).reshape(tensor["shape"])
    answer = runners[signature](**values)
    print(*(f"{name}={value.tobytes().hex()}" for name, value in answer.items()), flush=True)

"""The examples for phones as programs for a terminal, with stand-ins for what only phones have."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples" / "mobile"


def kotlin(folder):
    """Compiles `Interview.kt` into a folder."""
    home = os.environ.get("KOTLIN_HOME")
    compiler = shutil.which("kotlinc", path=os.path.join(home, "bin") if home else None)
    if not (compiler and shutil.which("javac")):
        pytest.skip("needs the programs kotlinc (npm: kotlin-compiler) and javac")
    run("javac", "-d", folder, HERE / "Interpreter.java")
    sources = (EXAMPLES / "Interview.kt", HERE / "Main.kt", HERE / "Json.kt")
    run(compiler, *sources, "-cp", folder, "-include-runtime", "-d", folder / "interview.jar")


def swift(folder):
    """Compiles `Interview.swift` into a folder."""
    if not shutil.which("swiftc"):
        pytest.skip("needs the program swiftc (Debian: swiftlang)")
    modules = [folder / f"{name}.o" for name in ("CryptoKit", "TensorFlowLite")]
    for module in modules:
        library = ("-parse-as-library", "-emit-module", "-emit-object", "-module-name", module.stem)
        run("swiftc", HERE / f"{module.stem}.swift", *library, "-o", module)
    run("swiftc", EXAMPLES / "Interview.swift", HERE / "main.swift", *modules, "-I", folder, "-o", folder / "interview")


def run(*command, **more):
    """Returns what a program prints."""
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, **more)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def interview(language, made_once, file, typed):
    """Returns what the program in a language, "kotlin" or "swift", prints for lines that a patient types."""
    folder = made_once(language, {"kotlin": kotlin, "swift": swift}[language])
    jar = f"{folder / 'interview.jar'}:{folder}"
    command = ["java", "-cp", jar, "MainKt"] if language == "kotlin" else [folder / "interview"]
    environment = os.environ | {"PYTHON": sys.executable, "LITERT": str(HERE / "litert.py")}
    return run(*command, file, input="".join(f"{line}\n" for line in typed), env=environment)

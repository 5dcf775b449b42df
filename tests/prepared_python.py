"""Python with TensorFlow and our packages loaded, which runs commands in copies of itself.

Loading takes a process some 5 seconds of processor time, and a copy (`fork`) hundredths of one. Each command still has
a process of its own, with its own arguments, variables and files, which signals reach and which ends as Python ends.

A request is a connection to the socket that the first argument names; the first one waits until all is loaded. It
brings the file descriptors 0, 1 and 2 of the command, and a line of JSON with the arguments of `run`. The answers are
two lines: the number of the process and, when it has ended, its status as `os.waitpid` reports it.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback

# No module that tests run with `-m`: it would be there before it is run.
LOADED = (
    "trainer.training.session",
    "trainer.study.study",
    "trainer.cloud.final_model",
    "triage_runtime.storage.locations",
    "serving.commands.serve",
)


def main(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        await_request(listener)
        load()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
            await_request(listener)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, *_ = socket.recv_fds(connection, 1 << 20, 3)
    process = os.fork()
    if process:
        for stream in (0, 1, 2, *streams):
            os.close(stream)
        connection.sendall(f"{process}\n".encode())
        connection.sendall(f"{os.waitpid(process, 0)[1]}\n".encode())
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    connection.close()
    for stream in streams:
        os.close(stream)
    end(**json.loads(request))


def await_request(listener):
    """Returns when there is a request, and ends with whoever started this process."""
    if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
        os._exit(0)


def load():
    shown, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # TensorFlow's lines about processors and graphics cards
    try:
        for name in LOADED:
            importlib.import_module(name)
        if os.environ.get("QUICK_GRAPHS"):
            sys.modules["tensorflow"].config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(nowhere)
    gc.collect()
    gc.freeze()  # the copies share these objects for as long as nobody touches them
    assert threading.active_count() == 1, "a copy would have only one of the threads"
    signal.signal(signal.SIGCHLD, reap)


def reap(*_):
    """Takes note of the processes that have ended; each of them waited for a command."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end(**request):
    """Runs the command and ends as Python would, but leaves it to the system to take all the modules down again."""
    code, interrupted = 0, False
    try:
        run(**request)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException as error:
        traceback.print_exc()
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def run(arguments, directory, variables):
    """Does what `python ARGUMENTS` does, for `-c CODE`, `-m MODULE` or a script, and what follows each of them."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    first, *rest = arguments
    if first == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)  # noqa: S102
    elif first == "-m":
        sys.argv, sys.path[0] = rest, directory
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(first)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])

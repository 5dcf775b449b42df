import os

from triage_runtime.command_line.standard_error import standard_error_without


def test_lines_with_an_unwanted_text_do_not_reach_the_terminal(capfd):
    with standard_error_without(b"delegate", b"quantiser"):
        os.write(2, b"Created a delegate\nan error of the library\nno quantiser here\n")
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "an error of the library\nlater\n"

import os

import pytest

from triage_runtime.command_line.standard_error import silent_unless_failing, standard_error_without


def test_lines_with_an_unwanted_text_do_not_reach_the_terminal(capfd):
    with standard_error_without(b"delegate", b"quantiser"):
        os.write(2, b"Created a delegate\nan error of the library\nno quantiser here\n")
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "an error of the library\nlater\n"


def test_what_is_held_back_is_shown_where_the_block_fails(capfd):
    def fail():
        with silent_unless_failing():
            os.write(2, b"what the library said\n")
            raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        fail()
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "what the library said\nafterwards\n"


def test_what_is_held_back_stays_hidden_on_ctrl_c(capfd):
    def interrupted():
        with silent_unless_failing():
            os.write(2, b"what the library said\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capfd.readouterr().err == ""

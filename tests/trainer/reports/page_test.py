from trainer.reports.page import clean


def test_control_characters_are_replaced_and_line_ends_stay():
    assert clean({"a\x1b": ["x\u202ey\x00\udc80", "one\ntwo\té", 1, None]}) == {
        "a\ufffd": ["x\ufffdy\ufffd\ufffd", "one\ntwo\té", 1, None]
    }

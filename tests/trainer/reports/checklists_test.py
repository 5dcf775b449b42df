"""The lists have the published numbers."""

import pytest

from trainer.reports.checklists import NAMES, read_checklist

PUBLISHED = {
    "tripod_ai": "1 2 3a 3b 3c 4 5a 5b 6a 6b 6c 7 8a 8b 8c 9a 9b 9c 10 11 12a 12b 12c 12d 12e 12f 12g 13 14 15 16 17 "
    "18a 18b 18c 18d 18e 18f 19 20a 20b 20c 21 22 23a 23b 24 25 26 27a 27b 27c",
    "decide_ai": "1 I 2a 2b II III 3a 3b 3c 4a 4b 4c 5a 5b IV 6a 6b 7 V 8 VI 9a 9b 10a 10b VII VIII 11 12 13a 13b 14a "
    "14b 15 16 IX 17 X",
    "annex_iv": "1(a) 1(b) 1(c) 1(d) 1(e) 1(f) 1(g) 1(h) 2(a) 2(b) 2(c) 2(d) 2(e) 2(f) 2(g) 2(h) 3 4 5 6 7 8 9",
}


@pytest.mark.parametrize("name", NAMES)
def test_each_published_item_is_there_once(name):
    assert [each.number for each in read_checklist(name).items] == PUBLISHED[name].split()
    assert all(each.item for each in read_checklist(name).items)

"""What was loaded is left out of garbage collection, what comes later is not."""

import gc
import weakref

from serving.garbage import leave_out_what_is_loaded


class Node:
    """Refers to itself, so that only garbage collection frees it."""

    def __init__(self):
        self.itself = self


def test_objects_of_before_are_not_walked_again_and_later_ones_are_freed():
    before = weakref.ref(Node())
    kept = Node()
    try:
        leave_out_what_is_loaded()
        assert gc.get_freeze_count() > 1000  # Python's own modules alone have more
        assert all(each is not kept for each in gc.get_objects())
        after = weakref.ref(Node())
        gc.collect()
        assert before() is None  # garbage is not kept for good
        assert after() is None
    finally:
        gc.unfreeze()

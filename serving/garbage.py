"""Python's garbage collection, whose long runs no call should have to wait for."""

import gc


def leave_out_what_is_loaded() -> None:
    """Takes all objects of now out of garbage collection for good; what is made later is collected as ever.

    A full collection stops every call while it walks the hundreds of thousands of objects that TensorFlow's modules
    hold. To be called after they are imported and before a model is loaded, since models are to be freed.
    """
    gc.collect()
    gc.freeze()

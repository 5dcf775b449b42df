"""Limits how long a function may take that can block forever, such as one that reads from a network file system."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from schemas.errors import InputError

_Result = TypeVar("_Result")


class TimeLimit:
    """Runs functions in threads of their own, and leaves those behind that take too long.

    Nothing can end such a thread. Until it ends by itself the same call is refused at once, so that threads do not
    pile up. For use by one thread at a time.

    Args:
        seconds: the longest time for one call.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._left: dict[tuple[Any, ...], threading.Thread] = {}

    def run(self, text: str, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Returns or raises what `function` does.

        Args:
            text: what it does, for the message, such as "reading models/3".
            function: what to run.
            arguments: for the function; they must be hashable.

        Raises:
            InputError: it takes too long, or an earlier call with these arguments still does.
        """
        key = (getattr(function, "__qualname__", ""), *arguments)
        self._left = {call: thread for call, thread in self._left.items() if thread.is_alive()}
        if key in self._left:
            raise InputError(self._message(text))
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.extend((function(*arguments), None))
            except BaseException as error:
                outcome.extend((None, error))

        thread = threading.Thread(target=work, name=f"limited: {text}", daemon=True)
        thread.start()
        thread.join(self._seconds)
        if not outcome:
            self._left[key] = thread
            raise InputError(self._message(text))
        result, error = outcome
        if error is not None:
            try:
                raise error
            finally:
                del error, outcome  # they refer to this frame
        return result

    def _message(self, text: str) -> str:
        return f"{text} takes longer than {self._seconds:g} s: does the file system answer?"

"""Limits the number of calls that the server holds."""

from serving.errors import ExhaustedError


class ConcurrencyLimit:
    """Places for calls; for use in one thread.

    When all are taken, a quarter more is kept for callers who have none, so that one cannot keep the others out.

    Args:
        number: how many there are.
    """

    def __init__(self, number: int):
        self._number = number
        self._more = number // 4
        self._taken = 0
        self._callers: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """The number of calls held now."""
        return self._taken

    def take(self, caller: str) -> None:
        """Takes a place, which `leave` gives back.

        Raises:
            ExhaustedError: all places are taken; do not call `leave`.
        """
        own = self._callers.get(caller, 0)
        if self._taken >= self._number + (0 if own else self._more):
            raise ExhaustedError(
                f"{self._taken} calls are running or waiting, and no more are accepted: try again later"
            )
        self._taken += 1
        self._callers[caller] = own + 1

    def leave(self, caller: str) -> None:
        """Gives a place back."""
        self._taken -= 1
        if self._callers[caller] == 1:
            del self._callers[caller]
        else:
            self._callers[caller] -= 1

"""Limits the number of calls that the server holds."""

from serving.errors import ExhaustedError


class Places:
    """Places for calls; for use in one thread.

    Args:
        number: how many there are.
    """

    def __init__(self, number: int):
        self._number = number
        self._taken = 0

    @property
    def taken(self) -> int:
        """The number of calls held now."""
        return self._taken

    def take(self) -> None:
        """Takes a place, which `leave` gives back.

        Raises:
            ExhaustedError: all places are taken; do not call `leave`.
        """
        if self._taken >= self._number:
            raise ExhaustedError(
                f"{self._number} calls are running or waiting, and no more are accepted: try again later"
            )
        self._taken += 1

    def leave(self) -> None:
        """Gives a place back."""
        self._taken -= 1

"""How many calls the server holds: further ones are refused at once."""

from serving.errors import ExhaustedError


class Places:
    """Places for calls; to be used in one thread.

    Args:
        number: how many there are.
    """

    def __init__(self, number: int):
        self._number = number
        self._taken = 0

    @property
    def taken(self) -> int:
        """The number of calls that are held."""
        return self._taken

    def take(self) -> None:
        """Takes a place, to be given back with `leave`.

        Raises:
            ExhaustedError: there is none; nothing is to be given back.
        """
        if self._taken >= self._number:
            raise ExhaustedError(f"{self._number} calls are running or waiting, more are not taken: try again later")
        self._taken += 1

    def leave(self) -> None:
        """Gives a place back."""
        self._taken -= 1

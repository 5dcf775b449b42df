"""Random numbers that depend on the seed and their purpose, not on how the work is divided.

NumPy guarantees the raw words of a bit generator in all versions, but not the output of its `Generator`, so numbers are
made from the raw words here.
"""

import numpy as np
import scipy.special

_MANTISSA_BITS = 53
# Irrational steps: the fractional parts of `i * step` fill [0, 1) evenly (a Kronecker sequence), independently for
# steps that no rational relation binds.
_STEPS = np.sqrt(np.array([2.0, 3.0, 5.0, 7.0, 11.0]))


class Draws:
    """The random numbers of one block of work, its `stream`; different ones are independent."""

    def __init__(self, seed: int, stream: int):
        self._bits = np.random.Philox(key=np.array([seed, stream], np.uint64))

    def uniform(self, *shape: int) -> np.ndarray:
        """Returns float64 of that shape, uniform in (0, 1)."""
        words = self._bits.random_raw(int(np.prod(shape))) >> np.uint64(64 - _MANTISSA_BITS)
        return ((words.astype(np.float64) + 0.5) * 2.0**-_MANTISSA_BITS).reshape(shape)

    def normal(self, *shape: int) -> np.ndarray:
        """Returns float64 of that shape with mean 0 and SD 1."""
        return scipy.special.ndtri(self.uniform(*shape))

    def gumbel(self, *shape: int) -> np.ndarray:
        """Returns float64 of that shape with the standard Gumbel distribution.

        The largest of log weights plus Gumbel draws is a draw in proportion to the weights; the k largest are k draws
        without replacement.
        """
        return -np.log(-np.log(self.uniform(*shape)))


def evenly_spread(seed: int, first: int, count: int, column: int) -> np.ndarray:
    """Returns float64 `[count]` in (0, 1): the elements from `first` on of a sequence that fills the interval evenly.

    Counts drawn with these numbers have almost exactly the intended distribution over any few hundred elements, for any
    seed. The `seed`, 0 or more, shifts the sequence; of independent ones there are five, the columns 0 to 4.
    """
    start = Draws(seed, 2**63 + column).uniform(1)[0]
    places: np.ndarray = np.arange(first, first + count, dtype=np.float64)
    return np.clip((start + places * _STEPS[column]) % 1.0, 2.0**-_MANTISSA_BITS, 1.0 - 2.0**-_MANTISSA_BITS)

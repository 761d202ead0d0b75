"""The random number generator that stochastic rounding draws from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trn3 import _trn3

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Xorwow:
    """The hardware's random number generator: XORWOW, one or four generators in each lane.

    A generator is Marsaglia's xorwow, as in cuRAND: five xorshift words and a Weyl counter that
    advances by 362437 a draw; the draw is the sum of the counter and the newest word. In a lane
    with four generators, draw i comes from generator i mod 4, and a call goes on where the last one
    stopped.

    Generators are equal if their states and phases are. They can be copied and pickled, and may be
    used from several threads: each call is one step.

    Parameters
    ----------
    state : uint32 array, [lanes, 6] or [lanes, 24]
        The words of each lane's generators, copied. In a lane of 24, generator g owns words 6 g to
        6 g + 5. The last of six words is the counter; the other five must not all be zero.

    Raises
    ------
    TypeError
        If `state` is no uint32 array.
    ValueError
        If it has another shape, or five xorshift words are all zero.

    See Also
    --------
    Xorwow.seed : Generators of a number instead of a state.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.numerics import Xorwow
    >>> words = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
    >>> rng = Xorwow(np.array([words], dtype=np.uint32))
    >>> rng.uint32(3).tolist()
    [[246875399, 3690007200, 1264581005]]
    """

    __slots__ = ("_core",)
    __hash__ = None  # type: ignore[assignment]

    _core: _trn3.XorwowCore

    def __init__(self, state: NDArray[np.uint32]) -> None:
        self._core = _trn3.XorwowCore.from_state(state)

    @classmethod
    def seed(cls, seed: int, lanes: int = 128, generators: int = 1) -> Xorwow:
        """Make generators of a number.

        Parameters
        ----------
        seed : int
            From 0 to 2**64 - 1.
        lanes : int, optional
            At least 1; the hardware has one for each of its 128 partitions.
        generators : {1, 4}, optional
            Generators in each lane: the GpSimd engine has 1, the Vector engine 4.

        Returns
        -------
        Xorwow

        Raises
        ------
        TypeError
            If an argument is no whole number.
        ValueError
            If one is out of its range.

        Notes
        -----
        Model choice: the states are filled by one splitmix64 stream, each output giving two words,
        low half first, in the order of lanes, generators and words. How the hardware expands a seed
        is not documented.

        Examples
        --------
        >>> from trn3.numerics import Xorwow
        >>> Xorwow.seed(2026, lanes=2)
        Xorwow(lanes=2, generators=1)
        """
        return cls._of(_trn3.XorwowCore.seed(seed, lanes, generators))

    @classmethod
    def _of(cls, core: _trn3.XorwowCore) -> Xorwow:
        made = cls.__new__(cls)
        made._core = core
        return made

    def uint32(self, n: int, *, out: NDArray[np.uint32] | None = None) -> NDArray[np.uint32]:
        """Return the next draws of each lane.

        Parameters
        ----------
        n : int
            How many of each lane.
        out : uint32 array, [lanes, n], optional
            Where to write them, C-contiguous.

        Returns
        -------
        uint32 array, [lanes, n]
            `out` itself if it was given.

        Raises
        ------
        TypeError
            If `n` is no whole number or `out` no uint32 array.
        ValueError
            If `n` is negative or `out` has another shape or layout.

        Examples
        --------
        >>> from trn3.numerics import Xorwow
        >>> Xorwow.seed(1, lanes=2).uint32(2).tolist()
        [[2926151520, 799748156], [2995141407, 1848907584]]
        """
        return self._core.uint32(n, out)

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float32]:
        """Return numbers between two bounds, made of the next draws of each lane.

        Parameters
        ----------
        n : int
            How many of each lane.
        low, high : float, optional
            The bounds, rounded to float32.

        Returns
        -------
        float32 array, [lanes, n]

        Raises
        ------
        TypeError
            If `n` is no whole number or a bound no number.
        ValueError
            If `n` is negative, or a bound or their difference is not finite.

        Notes
        -----
        Model choice: a draw r gives ``low + (high - low) * ((r >> 8) * 2**-24)``, each operation
        rounded to float32. The hardware's mapping is not documented.

        Examples
        --------
        >>> from trn3.numerics import Xorwow
        >>> print(Xorwow.seed(1, lanes=1).uniform(3, low=-1))
        [[ 0.36259544 -0.6275883   0.46583772]]
        """
        return self._core.uniform(n, low, high)

    def jump(self, n: int) -> None:
        """Take every lane a number of draws ahead, in time that grows with its logarithm.

        Parameters
        ----------
        n : int
            From 0 to 2**64 - 1.

        Raises
        ------
        TypeError
            If `n` is no whole number.
        ValueError
            If it is out of its range.

        Examples
        --------
        >>> from trn3.numerics import Xorwow
        >>> far, near = Xorwow.seed(1), Xorwow.seed(1)
        >>> far.jump(1000)
        >>> _ = near.uint32(1000)
        >>> far == near
        True
        """
        self._core.jump(n)

    @property
    def state(self) -> NDArray[np.uint32]:
        """The words of each lane, [lanes, 6] or [lanes, 24], a copy.

        It can be set to words of the same shape, under the rules for `Xorwow`; the phase is then 0.
        """
        return self._core.state

    @state.setter
    def state(self, state: NDArray[np.uint32]) -> None:
        self._core.state = state

    @property
    def __trn3_core__(self) -> _trn3.XorwowCore:
        """The compiled generator itself, which other rooms of the package hand to the core."""
        return self._core

    @property
    def phase(self) -> int:
        """Which generator of each lane draws next: 0 to 3, always 0 where a lane has one."""
        return self._core.phase

    def __repr__(self) -> str:
        lanes, words = self.state.shape
        return f"Xorwow(lanes={lanes}, generators={words // 6})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Xorwow):
            return NotImplemented
        return self._core.equals(other._core)

    def __copy__(self) -> Xorwow:
        return self._of(self._core.copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> Xorwow:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        core = self._core.copy()
        return _restored, (core.state, core.phase)


def _restored(state: NDArray[np.uint32], phase: int) -> Xorwow:
    rng = Xorwow(state)
    rng._core.phase = phase
    return rng


def draws_of(
    rng: Xorwow | NDArray[np.uint32] | None,
) -> _trn3.XorwowCore | NDArray[np.uint32] | None:
    """Return the argument `rng` as the extension takes it."""
    return rng._core if isinstance(rng, Xorwow) else rng

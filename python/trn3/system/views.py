"""A system as pictures, and as a file of another simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, overload

from trn3 import offers
from trn3.pictures import check_suffix, finished
from trn3.system import draw
from trn3.system.joined_chips import JoinedChips

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Views(JoinedChips):
    """What `System` draws and exports."""

    def to_svg(self) -> str:
        """Return a drawing as the text of an SVG file.

        Raises
        ------
        ValueError
            If the system has more than 1,024 chips.
        """
        return self._fabric.svg()

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw chips, switches and links (the extra ``plot``).

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file, whose path is returned; without one a figure of
            matplotlib is.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another suffix, or the system more than 1,024 chips.
        OSError
            If the file cannot be written.
        """
        if path is not None:
            check_suffix(Path(path))
        return finished(draw.draw_fabric(self._fabric), path)

    def to_astra_sim(self) -> str:
        """Return its fabric as the text of a network file of ASTRA-sim; see `trn3.interchange`.

        Raises
        ------
        ValueError
            If it has faults, or other rates than the documented ones: the format has neither.
        """
        if self.faults or self.links != "docs":
            message = f"{self!r}: exported are whole systems with links='docs'"
            raise ValueError(message)
        text: str = offers.take("system to ASTRA-sim")(self).text()
        return text

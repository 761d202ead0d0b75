"""A system as pictures, and as a file of another simulator."""

from __future__ import annotations

from pathlib import Path

from trn3 import offers
from trn3.system import draw
from trn3.system.joined_chips import JoinedChips


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

    def plot(self, path: str | Path) -> Path:
        """Draw the system into a .png, .svg or .pdf file (the extra ``plot``) and return its path.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another suffix, or the system more than 1,024 chips.
        OSError
            If the file cannot be written.
        """
        return draw.plot(self._fabric, Path(path))

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

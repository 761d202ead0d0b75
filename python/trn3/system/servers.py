"""Assembled systems by kind: instances, UltraServers, and the peers they are compared with."""

from __future__ import annotations

from trn3.system.base import System
from trn3.system.joined_chips import Links


class Instance(System):
    """One EC2 instance of 16 chips in a 4 x 4 torus, or a board of eight GPUs.

    Ids on Trn1 and Trn2 are ``(row, column)``: chip `i` of the vendor's numbering sits at row
    ``i // 4``, column ``i % 4``, and `i` itself is accepted wherever an id is.

    Examples
    --------
    >>> from trn3 import Instance
    >>> Instance.trn2().chips[7]
    (1, 3)
    """

    @classmethod
    def trn2(cls, *, links: Links = "docs", lnc: int | None = None) -> Instance:
        """Return a trn2.48xlarge.

        Examples
        --------
        >>> Instance.trn2().ranks
        64
        """
        return cls.built_in("trn2_instance", links=links, lnc=lnc)

    @classmethod
    def trn1(cls, *, links: Links = "docs", lnc: int | None = None) -> Instance:
        """Return a trn1.32xlarge.

        Examples
        --------
        >>> Instance.trn1().ranks
        32
        """
        return cls.built_in("trn1_32xlarge", links=links, lnc=lnc)


class UltraServer(System):
    """Several servers whose chips are joined by NeuronLink.

    Ids are ``(rack, server, chip)`` on Trn3, with servers counted within their rack, and
    ``(server, row, column)`` on Trn2.

    Examples
    --------
    >>> from trn3 import UltraServer
    >>> UltraServer.gen2().hops((0, 0, 0), (1, 0, 0))
    1
    """

    @classmethod
    def gen2(cls, *, links: Links = "docs", lnc: int | None = None) -> UltraServer:
        """Return a Trn3 Gen2 UltraServer: two racks of 18 servers of 4 chips.

        Examples
        --------
        >>> gen2 = UltraServer.gen2()
        >>> len(gen2), gen2.ranks
        (144, 576)
        """
        return cls.built_in("trn3_gen2", links=links, lnc=lnc)

    @classmethod
    def gen1(cls, *, links: Links = "docs", lnc: int | None = None) -> UltraServer:
        """Return a Trn3 Gen1 UltraServer: two racks of 2 servers of 16 chips.

        The rates of its levels are choices.

        Examples
        --------
        >>> UltraServer.gen1().assumptions[0].split(':')[0]
        'confidence low'
        """
        return cls.built_in("trn3_gen1", links=links, lnc=lnc)

    @classmethod
    def trn2(cls, *, links: Links = "docs", lnc: int | None = None) -> UltraServer:
        """Return a Trn2 UltraServer: four instances, whose equal positions are joined in rings.

        Examples
        --------
        >>> UltraServer.trn2().route((0, 0, 0), (2, 2, 2)).hops
        6
        """
        return cls.built_in("trn2_ultraserver", links=links, lnc=lnc)


class Rack(System):
    """A rack of GPUs behind one level of switches."""


class Pod(System):
    """A torus of TPUs."""


CLASSES: dict[str, type[System]] = {
    "trn1_32xlarge": Instance,
    "trn2_instance": Instance,
    "trn2_ultraserver": UltraServer,
    "trn3_gen1": UltraServer,
    "trn3_gen2": UltraServer,
    "trainium4": UltraServer,
    "trainium4_whatif": UltraServer,
    "inf2_48xlarge": Instance,
    "gb200_nvl72": Rack,
    "gb300_nvl72": Rack,
    "b200": Instance,
    "b300": Instance,
    "h100": Instance,
    "h200": Instance,
    "tpu_v7": Pod,
}

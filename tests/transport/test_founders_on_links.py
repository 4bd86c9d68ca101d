"""Peers that run take up rosters of new founders, and nothing that a former founder signs."""

from dataclasses import replace

import pytest

from peerloom.errors import PeerError
from tests.federation import endpoint, federation, free_ports, identity, until


def test_running_peers_follow_new_founders_only(tmp_path):
    ports = free_ports(3)
    first = federation(3, [(0, 1), (1, 0), (1, 2), (2, 1)], ports)
    two = tuple(identity(k).id for k in (1, 2))
    handed = first.amended(identity(0), founders=two, threshold=2)
    handed = handed.signed(identity(1)).signed(identity(2))
    with (
        endpoint(0, first, tmp_path, ports[0]) as a,
        endpoint(1, first, tmp_path, ports[1]) as b,
        endpoint(2, first, tmp_path, ports[2]) as c,
    ):
        assert until(lambda: all(link.up for link in (*a.links(), *c.links())), 20.0)
        b.consider(handed)
        for peer in (a, c):
            assert until(lambda peer=peer: peer.roster == handed, 20.0)
        stolen = replace(
            handed, version=3, log=(first.hash, handed.hash), founders=(first.founder,),
            threshold=1, signatures=(), changes=(),
        ).signed(identity(0))  # fmt: skip
        stolen.verify(first.founder)
        alone = handed.amended(identity(1), links=())
        for forged in (stolen, alone):
            with pytest.raises(PeerError):
                c.consider(forged)
        gone = tuple(
            link for link in handed.links if first.founder not in (link.source, link.target)
        )
        without = handed.amended(identity(2), members=handed.members[1:], links=gone)
        c.consider(without.signed(identity(1)))
        assert until(lambda: b.roster.version == 3 and len(b.roster.members) == 2, 20.0)
        assert until(lambda: not a.links() or not any(link.up for link in a.links()), 20.0), (
            "the first founder itself was removed"
        )
        with pytest.raises(PeerError, match="removed this peer"):
            a.take(identity(1).id, 1, 0, 20.0)

"""The scenarios, by number."""

from ..figures import Scenario
from . import crowds, disks, floods, kills, liars, networks, relays, rosters, strangers, tampering

__all__ = ["SCENARIOS"]

SCENARIOS = {
    scenario.number: scenario
    for scenario in (
        Scenario(1, "kill -9 in the middle of a round", kills.killed),
        Scenario(2, "kill -9 at random moments", kills.killed_at_random),
        Scenario(3, "partition, both ways and one way", networks.partitioned),
        Scenario(4, "20 % loss and 100 ms each way", networks.lossy),
        Scenario(5, "a large vector over a thin line", networks.thin),
        Scenario(6, "flipped bytes and cut connections", tampering.flipped_and_cut),
        Scenario(7, "wrong papers", strangers.wrong_papers),
        Scenario(8, "replayed sessions, a copied peer", tampering.replayed_and_copied),
        Scenario(9, "10,000 invented frames", tampering.fuzzed),
        Scenario(10, "many peers on one machine", crowds.crowd),
        Scenario(11, "SIGSTOP, then SIGCONT", kills.asleep),
        Scenario(12, "floods of half-open connections", floods.flooded),
        Scenario(13, "a full disk, then a spoilt checkpoint", disks.full_and_spoilt),
        Scenario(14, "members join, leave and come back", rosters.changed),
        Scenario(15, "a neighbour that lies", liars.lies),
        Scenario(16, "another version of the program", strangers.other_versions),
        Scenario(17, "a neighbour is down under a deadline", kills.down_under_a_deadline),
        Scenario(18, "peers that can only dial out", relays.relayed),
    )
}

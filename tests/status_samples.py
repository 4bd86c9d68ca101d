"""How a peer stands, as `telemetry.snapshot` tells it: a sample in which every metric is."""


def facts(**changes):
    """The sample; one link of each direction."""
    link = {
        "peer": "b", "up": True, "way": "direct", "since": 1.0, "rtt": 0.01, "lag": 0,
        "unacked_age": 0.0, "imbalance": 0, "frames": {"sent": 2}, "bytes": {"sent": 80},
        "reconnects": {"closed": 1},
    }  # fmt: skip
    return {
        "round": 1, "rounds": 2, "incarnation": 1,
        "last": {"loss": 0.5, "accuracy": 0.7, "f1": 0.6},
        "roster": {"version": 1, "unsaved": False},
        "links": [link | {"direction": direction} for direction in ("out", "in")],
        "agreement": {"consensus": 0.1, "distance": 0.2},
        "seconds": {"compute": 0.0, "wait": 0.0, "waiting": 0.0},
        "checkpoint": {"seconds": 0.0, "age": 2.0},
        "refusals": {"norm": 1},
        "members": [
            {"member": "a", "age": None},
            {"member": "b", "age": 3.0, "round": 1},
        ],
        "disk": {"used": {"checkpoints": 7}, "budget": 100},
        **changes,
    }  # fmt: skip

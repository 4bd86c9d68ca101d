"""One valid header of every kind of frame."""

from peerloom.transport.schemas import Kind

_SIDE = {
    "incarnation": 2, "process_nonce": 4, "attempt": 1, "last": [1, 9], "want": 4, "room": 16,
    "parents": [[1, 3]],
}  # fmt: skip
SAMPLES = {
    Kind.HELLO: {
        "versions": [1, 1], "run": "r", "agreement": "a", "roster": "h", "roster_version": 3,
        **_SIDE, "part": [1, 10, 1 << 18],
    },
    Kind.HELLO_OK: {"version": 7, "roster_version": 3, **_SIDE, "part": [0, 0, 0]},
    Kind.DATA: {
        "channel": 0, "round": 3, "mix_index": 0, "mode": "ordered", "ask": True, "length": 400,
        "epoch": 0, "incarnation": 1, "seq": 7,
    },
    Kind.SKIP: {"round": 3, "epoch": 0, "incarnation": 1, "seq": 7},
    Kind.MORE: {"seq": 7, "at": 1 << 18},
    Kind.ACK: {"seq": 7, "result": "applied", "room": 3},
    Kind.REFUSE: {"seq": 7, "why": "not_finite", "room": 0},
    Kind.PING: {"stamp": 2**62},
    Kind.PONG: {"stamp": 0, "room": 3},
    Kind.BYE: {"why": "stopped"},
    Kind.ROSTER: {},
    Kind.JOIN: {},
    Kind.CARDS: {},
}  # fmt: skip

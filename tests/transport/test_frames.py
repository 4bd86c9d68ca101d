"""Frames: what is written is read; whatever else comes is refused in one way, cheaply."""

import random
import resource
import struct

import msgpack
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.transport.frames import PREFIX_LENGTH, FrameError, decode, encode, read_prefix
from peerloom.transport.parser import Parser
from peerloom.transport.schemas import GREETINGS, SCHEMAS, VERSION, Kind
from tests.frame_samples import SAMPLES

BODY = np.arange(100, dtype="<f4").tobytes()
SEAL = 8  # bytes after a body
WITH_BODY = (Kind.DATA, Kind.MORE, Kind.ROSTER, Kind.JOIN, Kind.CARDS)


def whole(kind, header=None, body=None):
    body = (BODY if kind in WITH_BODY else b"") if body is None else body
    return encode(kind, SAMPLES[kind] if header is None else header, body)


def test_the_prefix_has_28_bytes():
    assert PREFIX_LENGTH == 28


@pytest.mark.parametrize("kind", Kind)
def test_what_is_written_is_read(kind):
    found, header, body = decode(whole(kind))
    assert (found, header) == (kind, SAMPLES[kind])
    assert body == (BODY if kind in WITH_BODY else b"")


def framed(kind, header, version=VERSION):
    """A frame without a body whose header is any value, and whose checksum is right."""
    packed = msgpack.packb(header)[:4096]
    digest = xxhash.xxh3_64_intdigest(packed)
    return struct.pack("!4sBBHIQQ", b"PLM1", version, kind, 0, len(packed), 0, digest) + packed


@pytest.mark.parametrize("kind", Kind)
def test_schemas_are_closed(kind):
    values = list(SAMPLES[kind].values())
    assert decode(framed(kind, values))[1] == SAMPLES[kind]
    for k in range(len(values)):
        for bad in (None, -1, 1.5, {}):
            with pytest.raises(FrameError, match="bad_header"):
                decode(framed(kind, [*values[:k], bad, *values[k + 1 :]]))
        with pytest.raises(FrameError, match="bad_header"):
            decode(framed(kind, values[:k] + values[k + 1 :]))
    for other in (SAMPLES[kind], None, 3):
        with pytest.raises(FrameError, match="bad_header"):
            decode(framed(kind, other))


LATER = st.recursive(
    st.integers(0, 2**63 - 1) | st.booleans() | st.text("az-09", max_size=128) | st.none(),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.sampled_from(Kind), st.lists(LATER, min_size=1, max_size=8))
def test_only_greetings_may_have_fields_of_a_later_version(kind, later):
    longer = [*SAMPLES[kind].values(), *later]
    if kind in GREETINGS:
        assert decode(framed(kind, longer))[1] == SAMPLES[kind], "what is known is read as ever"
    else:
        with pytest.raises(FrameError, match="bad_header"):
            decode(framed(kind, longer))
    old = [SAMPLES[kind][name] for name in SCHEMAS[6].get(kind, ())]
    with pytest.raises(FrameError, match=r"bad_header|unknown_kind"):
        decode(framed(kind, [*old, *later], 6), 6)


@pytest.mark.parametrize("version", SCHEMAS)
def test_each_version_reads_its_own_frames_and_no_others(version):
    for kind in SCHEMAS[version]:
        frame = encode(kind, SAMPLES[kind], version=version)
        found, header, _ = decode(frame, version)
        assert found is kind
        assert header == {name: SAMPLES[kind][name] for name in SCHEMAS[version][kind]}
        for other in SCHEMAS.keys() - {version}:
            with pytest.raises(FrameError, match="protocol_version"):
                decode(frame, other)


def test_the_form_of_greetings_is_frozen():
    """Of a process of every later version: what it says first must be read by this one."""
    assert encode(Kind.HELLO, SAMPLES[Kind.HELLO])[:8] == b"PLM1\x07\x01\x00\x00"
    assert encode(Kind.HELLO_OK, SAMPLES[Kind.HELLO_OK])[:8] == b"PLM1\x07\x02\x00\x00"
    assert encode(Kind.REFUSE, SAMPLES[Kind.REFUSE])[:8] == b"PLM1\x07\x06\x00\x00"
    side = ["incarnation", "process_nonce", "attempt", "last", "want", "room"]
    before = ["versions", "run", "agreement", "roster", "roster_version"]
    assert list(SCHEMAS[7][Kind.HELLO])[:11] == [*before, *side]
    assert list(SCHEMAS[7][Kind.HELLO_OK])[:8] == ["version", "roster_version", *side]
    assert list(SCHEMAS[7][Kind.REFUSE]) == ["seq", "why", "room"]


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"XXXX", "not_a_frame"),
        (4, bytes([VERSION + 1]), "protocol_version"),
        (5, b"\x63", "unknown_kind"),
        (6, b"\x00\x01", "unknown_kind"),
        (8, struct.pack("!I", 4097), "oversized"),
        (12, struct.pack("!Q", 2**63), "oversized"),
        (20, b"\x00" * 8, "checksum"),
    ],
)
def test_a_changed_prefix_is_named(at, value, reason):
    frame = bytearray(whole(Kind.DATA))
    frame[at : at + len(value)] = value
    with pytest.raises(FrameError) as caught:
        decode(bytes(frame))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "place", [PREFIX_LENGTH + 3, -SEAL - 1, -1], ids=["header", "body", "seal"]
)
def test_one_changed_bit_is_noticed_wherever_it_is(place):
    frame = bytearray(whole(Kind.DATA))
    frame[place] ^= 1
    with pytest.raises(FrameError, match="checksum"):
        decode(bytes(frame))


def test_a_body_of_another_frame_does_not_fit():
    """The seal is that of header and body together: two whole frames cannot be mixed up."""
    one, other = (whole(Kind.DATA, {**SAMPLES[Kind.DATA], "round": round}) for round in (1, 2))
    end = len(BODY) + SEAL
    with pytest.raises(FrameError, match="checksum"):
        decode(one[:-end] + other[-end:])


def test_a_length_that_was_changed_is_noticed():
    """Even to none at all: what followed would be no body, and nothing would be sealed."""
    frame = bytearray(whole(Kind.DATA))
    frame[12:20] = bytes(8)
    with pytest.raises(FrameError, match="checksum"):
        decode(bytes(frame[: -len(BODY) - SEAL]))


def parsed(data, admit=lambda head, header: memoryview(bytearray(head.body_length)), pieces=7000):
    """The frames in some bytes that come piece by piece."""
    parser, left, found = Parser(admit), memoryview(bytes(data)), []
    while left:
        into = parser.buffer()
        here = min(len(into), len(left), pieces)
        into[:here] = left[:here]
        left = left[here:]
        parser.advance(here)
        while (frame := parser.next()) is not None:
            found.append(frame)
    return found


@pytest.mark.parametrize("size", [4, 16_000, 70_000, 200_000], ids="{} bytes".format)
@pytest.mark.parametrize(
    "place", [None, 0, -SEAL - 1, -SEAL, -1], ids=["none", "first", "last", "seal", "end"]
)
def test_a_parser_holds_the_seal_against_what_came(size, place):
    body = np.arange(size // 4, dtype="<f4").tobytes()
    frame = bytearray(whole(Kind.DATA, body=body) + whole(Kind.PING))
    after, start = len(whole(Kind.PING)), len(frame) - len(whole(Kind.PING)) - SEAL - size
    if place is not None:
        frame[start if place == 0 else place - after] ^= 1
    if place is None:
        data, ping = parsed(frame)
        assert (data.kind, data.body, data.size) == (Kind.DATA, body, size)
        assert ping.kind is Kind.PING, "what follows is still there"
    else:
        with pytest.raises(FrameError, match="checksum"):
            parsed(frame)


@given(
    st.lists(st.sampled_from(list(Kind)), max_size=6), st.integers(1, 40_000), st.integers(0, 2**32)
)
def test_frames_cut_anywhere_are_the_same_frames(kinds, pieces, seed):
    draws = random.Random(seed)
    bodies = [
        draws.randbytes(draws.choice([1, 50, 40_000])) if kind in WITH_BODY else b""
        for kind in kinds
    ]
    sent = b"".join(whole(kind, body=body) for kind, body in zip(kinds, bodies, strict=True))
    found = parsed(sent, pieces=pieces)
    assert [(frame.kind, bytes(frame.body)) for frame in found] == list(
        zip(kinds, bodies, strict=True)
    )
    past = parsed(sent, admit=lambda head, header: None, pieces=pieces)
    assert [(frame.kind, frame.size, len(frame.body)) for frame in past] == [
        (kind, len(body), 0) for kind, body in zip(kinds, bodies, strict=True)
    ]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in WITH_BODY])
def test_control_frames_have_no_body(kind):
    with pytest.raises(FrameError, match="oversized"):
        decode(whole(kind, body=b"x"))


def test_lengths_are_judged_before_memory_is_taken():
    prefix = struct.pack("!4sBBHIQQ", b"PLM1", VERSION, Kind.ROSTER, 0, 10, 2**40, 0)
    with pytest.raises(FrameError, match="oversized"):
        read_prefix(prefix)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_way(data):
    with pytest.raises(FrameError):
        decode(data)


@given(
    st.sampled_from(list(Kind)),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats()
        | st.text(max_size=200)
        | st.binary(max_size=200),
        lambda inner: (
            st.lists(inner, max_size=20)
            | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=20)
        ),
        max_leaves=30,
    ),
)
def test_any_header_is_refused_in_one_way_or_fits(kind, header):
    try:
        _, found, _ = decode(framed(kind, header))
    except FrameError:
        return
    assert type(header) is list
    assert found == dict(zip(SAMPLES[kind], header, strict=True))


def test_ten_thousand_hostile_frames():
    """Frames with bytes changed, cut and repeated, and random headers are refused or read."""
    draws = random.Random(5)
    originals = [whole(kind) for kind in Kind]
    before, read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for _ in range(10_000):
        frame = bytearray(draws.choice(originals))
        for _ in range(draws.randrange(1, 6)):
            place = draws.randrange(len(frame))
            match draws.randrange(4):
                case 0:
                    frame[place] ^= 1 << draws.randrange(8)
                case 1:
                    del frame[place:]
                case 2:
                    frame[place:place] = draws.randbytes(draws.randrange(1, 40))
                case _:
                    frame[place : place + 8] = draws.randbytes(8)
            frame = frame or bytearray(b"P")
        try:
            decode(bytes(frame))
            read += 1
        except FrameError:
            pass
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50_000, "kilobytes"
    assert read < 100, "the checksum let changed frames through"

"""The fixed words with which connections and frames are refused, each explained."""

from __future__ import annotations

__all__ = ["ALARMS", "EXCLUSIONS", "FAREWELLS", "REASONS", "bounded", "explained", "known_reason"]

_BY_PEER = "by_peer_"  # prefix of a reason that the other side gave

ALARMS = ("identity_conflict", "old_incarnation", "roster", "roster_fork")
"""Reasons that an operator should look into at once."""

EXCLUSIONS = ("identity_conflict", "old_incarnation", "roster_fork")
"""Reasons for which a process that neighbours refuse may never go on as it is."""

FAREWELLS = ("removed", "too_far_behind")
"""Reasons for which a neighbour leaves for good; other departures need no explanation."""

REASONS: dict[str, str] = {
    "absent": "it is not at the relay now",
    "bad_header": "a frame is not of the agreed form",
    "card": "a card of a member is not of the agreed form, or the member did not sign it",
    "changed_on_the_way": "bytes were changed on their way",
    "checksum": "a checksum is wrong",
    "closed": "the connection was closed",
    "crossed": "both sides dialled at once, and the other connection stays",
    "cut_short": "a frame was cut short",
    "epoch_ahead": "the roster there is of a later epoch",
    "expired_certificate": "the certificate has expired, or a clock is wrong",
    "handshake": "the TLS handshake failed",
    "handshake_flood": "too many unfinished handshakes",
    "handshake_timeout": "the handshake took too long",
    "identity_conflict": (
        "two processes use one key: a copy of the peer, or a state folder that was lost"
    ),
    "internal": "a fault of this program, of which the log has the traceback; please report it",
    "network": "the network failed",
    "no_address": "the roster has neither an address for it nor a relay",
    "no_link": "the roster has no such link any more",
    "no_room": "more parcels came than there was room for",
    "no_relay": "no relay is reached",
    "no_certificate": "no certificate was shown",
    "nobody_listens": "nobody listens there",
    "norm": "a vector is longer than the settings allow",
    "not_a_frame": "what came is no frame of this protocol",
    "not_a_member": "the key is of no member of the roster",
    "not_a_neighbour": (
        "the roster here has no link between the two; compare `peerloom peer roster show`"
    ),
    "not_admitted": (
        "the roster there does not have this peer: it was removed, or one of the two rosters is old"
    ),
    "not_finite": "a vector holds NaN or infinite numbers",
    "old_incarnation": "an older copy of this peer runs somewhere; stop it",
    "old_tls": "TLS 1.3 is needed",
    "out_of_turn": "a frame came out of turn",
    "oversized": "more bytes than were agreed on",
    "other": "a word that this version does not know",
    "paused": "after an error of the program, or a false roster or card, the two pause",
    "plain_text": "what came is not TLS",
    "protocol_version": (
        "the two run versions of Peerloom that do not understand each other; upgrade one"
    ),
    "proxy": "the proxy of this site does not let it pass",
    "proxy_login": "the proxy of this site wants another user or password",
    "removed": "the founder took it from the roster; see `peerloom peer roster show`",
    "roster": "the roster it sent cannot be believed",
    "roster_fork": "the two have different rosters of one version; ask the founder which one holds",
    "second_process": (
        "another process of this peer is connected, and is asked whether it still runs"
    ),
    "stale_epoch": "a parcel is of an epoch that is over",
    "timeout": "nothing came in time",
    "too_far_ahead": "a parcel is of a round that the run does not have",
    "too_far_behind": (
        "one of the two needs rounds that the other no longer keeps; the run must begin anew"
    ),
    "too_many": "it has more streams at the relay than a pair may have",
    "too_often": "it dials more often than the relay lets it",
    "too_fast": "it sends more than a link may cost",
    "unknown_certificate": "the certificate is of no member of the roster",
    "unknown_kind": "a frame of an unknown kind",
    "wrong_levels": "a compressed row holds levels that its codec does not have",
    "wrong_peer": "another member answers at its address",
    "wrong_positions": "a compressed row names coordinates that it cannot have",
    "wrong_protocol": "the other side speaks another protocol, or versions that this one does not",
    "wrong_run": "the two run different experiment files; compare them",
    "wrong_token": "a stream came to the relay with a token that is not good, or no longer",
    "wrong_shape": "a vector is not of the agreed length or type",
    "wrong_spec": (
        "the two disagree on the model or on what is sent; compare experiment files and model code"
    ),
}


def known_reason(why: str) -> bool:
    """Whether a word is a known reason, given here or (with prefix) by the other side.

    >>> known_reason("by_peer_wrong_run"), known_reason("by_peer_anything")
    (True, False)
    """
    return why.removeprefix(_BY_PEER) in REASONS


def bounded(why: str) -> str:
    """A neighbour's word if it is a known reason, else 'other'.

    Reasons are counted by word; words that a neighbour invents must not fill the memory.
    """
    return why if why in REASONS else "other"


def explained(name: str, why: str, detail: str = "") -> str:
    """A refusal as one line of a log.

    >>> explained("hospital-b", "by_peer_wrong_run")
    'hospital-b refuses this peer: wrong_run (the two run different experiment files; compare them)'
    """
    word = why.removeprefix(_BY_PEER)
    inside = "; ".join(text for text in (detail, REASONS.get(word, "")) if text)
    who = f"refused {name}" if word == why else f"{name} refuses this peer"
    return f"{who}: {word} ({inside})" if inside else f"{who}: {word}"

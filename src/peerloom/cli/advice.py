"""Advice as a page of text: plain words first, numbers after."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..reports.wording import capital, listed, number, plural, size
from ..theory import Advice
from ..theory.improve import Improvement

__all__ = ["render"]

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}


_ROUNDS = (
    "Leaves: of the squared disagreement, in the long run of a typical run, by mixing alone; at "
    "most: of the expected one, in any round; all on: the same if every link always fired. To "
    "agree: until a millionth is left, so that models are a thousand times closer. Sent and delay: "
    "on average per round."
)


def render(title: str, found: Sequence[Advice]) -> RenderableType:
    """The first seed in full, the others in a line each."""
    first = found[0].seed
    shown = [advice for advice in found if advice.seed == first]
    others = dict.fromkeys(advice.seed for advice in found if advice.seed != first)
    parts: list[RenderableType] = [
        Text(f"{title}, seed {first}" if others else title, style="bold")
    ]
    parts += _section("In short", [Text(_in_short(shown))])
    parts += _section("The network", _network(shown[0]))
    parts += _section("The problem", _problem(shown[0]))
    parts += _section("Each round", [_rounds(shown), Text(_ROUNDS, style="dim")])
    parts += _section("What theory covers", _theory(shown))
    parts += _section("What would help", _help(shown))
    parts += _section("Beware", _findings(shown))
    skipped = dict.fromkeys(text for advice in shown for text in advice.skipped)
    parts += _section("Left out", [Text(text, style="dim") for text in skipped])
    parts += _section(
        "Other seeds", [_other([one for one in found if one.seed == seed]) for seed in others]
    )
    return Group(*parts)


def _in_short(shown: Sequence[Advice]) -> str:
    broken = [a.label for a in shown if not a.works]
    if broken:
        whose = "This" if len(broken) == len(shown) else listed(broken)
        return f"{whose} cannot work: " + next(
            one.text for a in shown for one in a.findings if one.level == "error"
        )
    needed = sorted({a.rounds_to_agree for a in shown if a.rounds_to_agree is not None})
    pace = (
        ""
        if not needed
        else f"{needed[0]:,}"
        if len(needed) == 1
        else f"{needed[0]:,} to {needed[-1]:,}"
    )
    agree = "The models never agree."
    if needed:
        agree = f"Everyone reaches everyone, and models agree within {pace} rounds."
    elif any(a.contraction.how == "unknown" for a in shown):
        agree = "How fast models agree is not known."
    covered = [a.label for a in shown if a.coverage.holds]
    if not covered:
        proof = (
            "No theorem of the five papers covers it"
            if len(shown) == 1
            else "No theorem of the five papers covers any of them"
        )
        return f"{agree} {proof}, which does not mean that it fails: what is missing stands below."
    rest = "" if len(covered) == len(shown) else "; the others are on their own"
    return f"{agree} A theorem covers {listed(covered)}{rest}."


def _section(title: str, lines: Iterable[RenderableType]) -> Iterator[RenderableType]:
    inside = [Padding(line, (0, 0, 0, 2)) for line in lines]
    if inside:
        yield Text(f"\n{title}", style="bold")
        yield from inside


def _network(a: Advice) -> Iterator[Text]:
    s = a.shape
    count = s.links // 2 if s.two_way else s.links
    who = (
        f"{plural(a.clients, 'client')} under {plural(a.hubs, 'hub')}; the hubs' graph: "
        if a.hubs
        else ""
    )
    nodes = plural(s.rows, "hub" if a.hubs else "client")
    kind = "link" if s.two_way else "one-way link"
    hops = _hops(a)
    reach = f"everyone reaches everyone{hops}" if s.connected else "NOT everyone reaches everyone"
    yield Text(f"{a.graph}: {who}{nodes}, {plural(count, kind)}; {reach}.")
    degrees = (
        str(s.degree_low) if s.degree_low == s.degree_high else f"{s.degree_low} to {s.degree_high}"
    )
    mean = "" if s.degree_low == s.degree_high else f" ({s.degree_mean:.1f} on average)"
    facts = [
        "regular" if s.regular else "not regular",
        "bipartite" if s.bipartite else "not bipartite",
    ]
    yield Text(
        f"{degrees} {'neighbour' if degrees == '1' else 'neighbours'} each{mean}; "
        f"{', '.join(facts)}."
    )
    for one in a.matrices:
        layer = "" if one.layer == "peers" else f" of layer {one.layer}"
        plain = one.weights != "neighbours" and not a.hubs
        own = f"; every client keeps at least {number(one.least_own)} for itself" if plain else ""
        yield Text(f"Weights{layer} ({_weights(one.weights)}): {one.words}{own}.")


def _hops(a: Advice) -> str:
    s = a.shape
    if s.diameter is not None:
        return f", over {plural(s.diameter, 'link')} at most"
    return (
        f", over {s.diameter_low} to {s.diameter_high} links at most"
        if s.diameter_low is not None
        else ""
    )


def _weights(kind: str) -> str:
    words = {
        "receiver": "chosen by the receiver",
        "sender": "chosen by the sender",
        "neighbours": "plain mean of neighbours",
    }
    return words[kind]


def _problem(a: Advice) -> Iterator[RenderableType]:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    words = {
        "smoothness": "smoothness",
        "convexity": "strong convexity",
        "noise": "gradient noise",
        "diversity": "gradient diversity",
        "slope": "its growth with distance",
    }
    for name, word in words.items():
        one = getattr(a.constants, name)
        if name == "slope" and not one.value:
            continue
        span = (
            f"{number(one.low)} to {number(one.high)}"
            if one.how == "estimated" and one.low != one.high
            else ""
        )
        most = "at most " if one.how == "bound" else ""
        table.add_row(
            word, f"{most}{number(one.value)}", one.how, span, Text(one.note, style="dim")
        )
    yield table


def _rounds(shown: Sequence[Advice]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", overflow="fold")
    heads = (
        "leaves",
        "at most",
        "all on",
        "rounds\nto agree",
        "links\nfire",
        "clients\ncompute",
        "sent",
        "delay",
    )
    for name in heads:
        table.add_column(name, justify="right")
    for a in shown:
        c = a.contraction
        table.add_row(
            Text(a.label),
            "not known" if c.best is None else _rate(c.best),
            "n/a" if c.per_round is None else _rate(c.per_round),
            "n/a" if c.all_on is None else _rate(c.all_on),
            _agreed(a),
            _range(a.links),
            _range(a.nodes),
            size(a.costs.bytes),
            number(a.costs.delay),
        )
    return table


def _agreed(a: Advice) -> str:
    if a.contraction.how == "unknown":
        return "not known"
    return "never" if a.rounds_to_agree is None else f"{a.rounds_to_agree:,}"


def _rate(value: float) -> str:
    """Enough digits to tell it from 1."""
    if value < 1e-12:
        return "0"
    text = f"{value:.4f}" if value < 0.9999 else f"1 - {1 - value:.2g}"
    return "1" if value >= 1 - 1e-12 else text


def _range(three: tuple[float, float, float]) -> str:
    low, _, high = three
    return f"{low:.2g}" if high - low < 1e-9 else f"{low:.2g} - {high:.2g}"


def _theory(shown: Sequence[Advice]) -> Iterator[RenderableType]:
    for labels, (a, *_) in _alike(
        shown, lambda a: (a.coverage.theorem, a.coverage.holds, a.coverage.fails, a.coverage.step)
    ):
        c = a.coverage
        text = Text(f"{listed(labels)}: ")
        if c.holds:
            text.append(f"covered by {c.theorem}", style="green").append(".")
        else:
            text.append("covered by no theorem", style="yellow").append(
                f". {c.theorem}: {'; '.join(c.fails)}."
            )
        yield text
        yield from (Padding(Text(line), (0, 0, 0, 2)) for line in _steps(a))


def _steps(a: Advice) -> Iterator[str]:
    c = a.coverage
    if c.step is not None:
        limits = [
            f"{word} {number(value)}"
            for word, value in (
                ("the paper allows", c.printed),
                ("by our own reckoning up to", c.allowed),
                ("it really settles up to", c.exact_step),
            )
            if value is not None
        ]
        yield f"Step {number(c.step)}" + (
            f"; {', '.join(limits)}." if limits else "; theory names no limit here."
        )
    if c.growth is not None:
        yield f"Growth of sigma: below {c.growth:.5g}."
    if c.floor:
        told = ", ".join(f"{name} <= {number(value)}" for name, value in c.floor.items())
        yield f"Floor, as bounded: {told}."
    if c.exact is not None:
        e = c.exact
        yield (
            f"Floor, exactly: |mean model - optimum|^2 = {number(e.error)} (of it bias "
            f"{number(e.bias)}), consensus error {number(e.consensus)}, loss above the optimum "
            f"{number(e.excess)}."
        )
    yield from (f"Note: {note}." for note in c.notes)


def _help(shown: Sequence[Advice]) -> Iterator[Text]:
    with_changes = [a for a in shown if a.changes is not None]
    for labels, (a, *_) in _alike(with_changes, lambda a: a.changes):
        assert a.changes is not None
        c, said = a.changes, []
        if c.surer:
            said.append(
                f"always on instead of now and then: {'; '.join(_change(one) for one in c.surer)}"
            )
        if c.fresh:
            said.append(f"new links: {'; '.join(_change(one) for one in c.fresh)}")
        if c.weights is not None and 1 - c.weights > 1.02 * (1 - c.now):
            said.append(
                f"better weights than these: {_rate(c.weights)} (--json has them, "
                "graphs.from_matrix takes them)"
            )
        if said:
            yield Text(
                f"{listed(labels)}, now {_rate(c.now)} at most per mixing. "
                + ". ".join(map(capital, said))
                + "."
            )


def _change(one: Improvement) -> str:
    arrow = "-" if one.both_ways else " -> "
    now = (
        f" (now {one.before:.2g})"
        if one.before
        else f" (at {one.after:.2g})"
        if one.after < 1
        else ""
    )
    return f"{one.source}{arrow}{one.target}{now} gives {_rate(one.contraction)}"


def _findings(shown: Sequence[Advice]) -> Iterator[Text]:
    told: dict[tuple[str, str], list[str]] = {}
    for a in shown:
        for one in a.findings:
            told.setdefault((one.level, one.text), []).append(a.label)
    for level in _COLOURS:
        for (mine, text), labels in told.items():
            if mine == level:
                whose = "" if len(labels) == len(shown) else f" ({listed(labels)})"
                yield Text.assemble((f"{level}: ", _COLOURS[level]), text, whose)


def _other(found: Sequence[Advice]) -> Text:
    agree = ", ".join(f"{a.label} {_agreed(a)}" for a in found)
    wrong = sum(one.level != "note" for a in found for one in a.findings)
    broken = "" if all(a.works for a in found) else "; CANNOT WORK"
    tail = f"; {plural(wrong, 'warning')}" if wrong else ""
    return Text(
        f"{found[0].seed}: rounds to agree: {agree}{tail}{broken}. In full: --seed {found[0].seed}"
    )


def _alike(
    shown: Sequence[Advice], key: Callable[[Advice], Hashable]
) -> Iterator[tuple[list[str], list[Advice]]]:
    groups: dict[Hashable, list[Advice]] = {}
    for a in shown:
        groups.setdefault(key(a), []).append(a)
    for members in groups.values():
        yield [a.label for a in members], members

"""Verdicts on made-up tables: what must hold, what must fail, and what stays open."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from peerloom.papers.recipes import RECIPES, Form, Part, outcome
from peerloom.papers.recipes.checks import decide
from peerloom.papers.recipes.claims import (
    across,
    ahead,
    best_point,
    close,
    grows,
    order,
    printed,
    steady,
)
from peerloom.papers.recipes.intervals import ERROR, needed
from peerloom.papers.recipes.kept import named
from peerloom.papers.recipes.markdown import to_markdown
from peerloom.papers.recipes.page import to_html
from peerloom.runs import Run, Table
from peerloom.sweeps.readings import Found, Reading, middle, quartiles

END = Reading("mean_accuracy")
DECIDE = min(needed(ERROR / 5))  # seeds that decide when they agree, also of claims with parts
LOSS = Reading("average_loss")


def run(label, seed, status="done", **columns):
    length = len(next(iter(columns.values())))
    table = Table(
        {"round": list(range(length)), "delay": [10.0 * t for t in range(length)]} | columns
    )
    return Run(
        Path(f"{label}-{seed}"), {"label": label, "seed": seed, "status": status}, {}, {}, table
    )


def found(points, column="mean_accuracy"):
    """{point: {label: [final value of each seed]}}; one value is that of as many as decide."""
    return Found(
        {
            point: [
                run(label, seed, **{column: [0.0, value]})
                for label, values in labels.items()
                for seed, value in enumerate(values * (DECIDE if len(values) == 1 else 1))
            ]
            for point, labels in points.items()
        }
    )


def answer(check, *given, **named):
    return check(found(*given, **named)).answer


AHEAD = ahead("ours", END, "ours is best")


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ([0.9] * 7, "holds"),
        ([0.1] * 7, "does not hold"),
        ([0.9] * 6, "not decided here"),  # six coins show one side in one of thirty-two cases
        ([0.9] * 6 + [0.1], "not decided here"),
        ([0.9] * 6 + [0.1, 0.9, 0.9], "not decided here"),  # judged by the first seven of nine
        ([0.1] + [0.9] * 9, "not decided here"),
        ([0.1] * 2 + [0.9] * 13, "holds"),
        ([0.1] * 3 + [0.9] * 12, "not decided here"),
        ([0.1] * 4 + [0.9] * 16, "holds"),
        ([0.1] * 16 + [0.9] * 34, "holds"),
        ([0.9] * 16 + [0.1] * 34, "does not hold"),
        ([0.1] * 17 + [0.9] * 33, "not decided here"),
        ([0.5] * 7, "does not hold"),  # a tie is no lead
        ([math.nan] + [0.9] * 9, "not decided here"),  # what is not known may be either way
        ([math.nan] * 2 + [0.9] * 13, "holds"),
    ],
)
def test_the_interval_for_the_median_decides(ours, expected):
    assert answer(AHEAD, {"": {"ours": ours, "other": [0.5] * len(ours)}}) == expected


def test_a_verdict_says_its_interval_and_how_many_seeds_it_is_of():
    def of(*ours, what=AHEAD):
        return what(found({"": {"ours": list(ours), "other": [0.5] * len(ours)}}))

    values = [0.6, 0.9, 0.7, 0.61, 0.8, 0.62, 0.63]
    verdict = of(*values)
    assert (verdict.interval, verdict.judged) == ("+13.0 points (+10.0 to +40.0)", 7)
    assert of(*values, 0.1, 0.2).interval == verdict.interval, "the first seven of nine"
    assert verdict.measured.endswith("+40.0), 7 seeds")
    two = of(0.6, 0.8)
    assert two.interval == ("+20.0 points (from +10.0 to +30.0, no interval below 7 seeds)")
    alone = AHEAD(
        Found({"": [run(la, 0, mean_accuracy=[y]) for la, y in (("ours", 0.6), ("x", 0.5))]})
    )
    assert alone.measured.endswith("+10.0 points (no interval below 7 seeds), one seed")
    certain = replace(AHEAD, certain=True)
    assert of(0.6, 0.8, what=certain).interval == ("+20.0 points (from +10.0 to +30.0)")


def test_what_is_certain_is_decided_by_one_seed_and_fails_with_any():
    def of(*ours):
        check = replace(AHEAD, certain=True)
        return check(found({"": {"ours": list(ours), "other": [0.5] * len(ours)}})).answer

    assert [of(0.6, 0.6), of(0.6, 0.4), of(math.nan, 0.6)] == [
        "holds",
        "does not hold",
        "not decided here",
    ]
    only = Found({"": [run("ours", 0, mean_accuracy=[0.6]), run("other", 0, mean_accuracy=[0.5])]})
    assert replace(AHEAD, certain=True)(only).answer == "holds"
    assert RECIPES["depositum"]["fig2"].checks[0].certain


def test_a_claim_fails_with_one_of_its_points():
    good, bad = {"ours": [0.9], "other": [0.5]}, {"ours": [0.5], "other": [0.9]}
    assert answer(AHEAD, {"a": good, "b": good}) == "holds"
    assert answer(AHEAD, {"a": good, "b": bad}) == "does not hold"
    verdict = AHEAD(found({"a": good, "b": bad}))
    assert verdict.interval.startswith("-40.0 points")
    assert verdict.where == "at the weakest, b; 1 of 2 hold, 1 fail"
    assert answer(ahead("ours", END, "", only=["a"]), {"a": good, "b": bad}) == "holds"
    assert answer(ahead("ours", END, "", by=0.5), {"a": good}) == "does not hold"
    assert AHEAD(found({"a": good}), judge=False).answer == "not decided here"


def test_of_many_points_one_fails_a_claim_only_by_an_interval_for_so_many():
    """Seven seeds decide one point; that one of ten looks false by them happens by chance."""
    good, bad = ({"ours": [value] * 7, "other": [0.5] * 7} for value in (0.9, 0.1))
    assert answer(AHEAD, {"a": bad}) == "does not hold"
    ten = {str(k): good for k in range(9)} | {"9": bad}
    assert answer(AHEAD, ten) == "not decided here"
    assert AHEAD(found(ten)).where.endswith("9 of 10 hold, 1 fail by themselves")
    assert answer(AHEAD, {str(k): good for k in range(10)}) == "holds", "as each of them does"
    more = {point: {k: v[:1] * 10 for k, v in labels.items()} for point, labels in ten.items()}
    assert answer(AHEAD, more) == "does not hold"


def test_halves_of_the_seeds_that_contradict_each_other_are_told():
    def of(*ours):
        return AHEAD(found({"": {"ours": list(ours), "other": [0.5] * len(ours)}}))

    agreed = of(*[0.9, 0.9, 0.1] * 16, 0.9, 0.9)
    assert (agreed.answer, agreed.opposed) == ("holds", False)
    apart = of(*[0.9] * 15, *[0.1] * 15)
    assert (apart.answer, apart.opposed) == ("not decided here", True)
    assert apart.measured.endswith("; the halves of the seeds contradict each other")
    one_half = of(*[0.9, 0.1] * 6, *[0.1] * 3, *[0.9] * 23, *[0.9] * 5, *[0.9] * 7)
    assert one_half.answer == "holds"
    assert not one_half.opposed
    first = [0.9] * 12 + [0.1] * 13
    assert of(*first, *[0.9] * 25).opposed, "decided, but the first half is on the other side"


def test_runs_that_diverge_lose_and_runs_that_never_arrive_are_late():
    def of(check, **columns):
        runs = [
            run(label, seed, status, mean_accuracy=values)
            for label, (status, values) in columns.items()
            for seed in range(DECIDE)
        ]
        return check(Found({"": runs})).answer

    fine, gone = ("done", [0.1, 0.2]), ("diverged", [0.1, 0.9])
    assert of(AHEAD, ours=fine, other=gone) == "holds"
    assert of(AHEAD, ours=gone, other=fine) == "does not hold"
    delay = Reading("delay", level=("mean_accuracy", 0.5))
    first = ahead("ours", delay, "")
    early, late, never = (
        ("done", values) for values in ([0.0, 0.5, 1.0], [0.0, 0.0, 0.5], [0.0, 0.1, 0.2])
    )
    arrived = [delay.of(run("a", 0, mean_accuracy=values)) for _, values in (early, late, never)]
    assert arrived == [10.0, 20.0, math.inf]
    assert of(first, ours=early, x=late) == "holds"
    assert of(first, ours=early, x=never) == "holds"
    assert of(first, ours=never, x=never) == "not decided here"


def test_readings_interpolate_and_do_not_go_beyond():
    one = run("a", 0, mean_accuracy=[0.0, 0.4, 0.8])
    assert Reading("mean_accuracy", 15.0, "delay").of(one) == pytest.approx(0.6)
    assert math.isnan(Reading("mean_accuracy", 25.0, "delay").of(one))
    short = run("b", 0, mean_accuracy=[0.0, 0.3])
    at_equal = Found({"": [one, short]}).values(
        "", "a", Reading("mean_accuracy", "common", "delay")
    )
    assert at_equal == {"0": pytest.approx(0.4)}
    capped = Reading("mean_accuracy", "common", "delay", upto=5.0)
    assert Found({"": [one, short]}).values("", "a", capped) == {"0": pytest.approx(0.2)}
    other = [run(label, 1, mean_accuracy=[0.0, 0.4, 0.8]) for label in "ab"]
    both = Found({"": [one, short, *other]})
    at = both.values("", "a", Reading("mean_accuracy", "common", "delay"))
    assert at == {"0": pytest.approx(0.4), "1": pytest.approx(0.8)}, "each seed as far as it came"
    uneven = run("a", 0, mean_loss=[4.0, math.nan, 2.0, 0.0])  # not measured in round 1
    along = (2 * (4 + 2) / 2 + (2 + 0) / 2) / 3  # straight lines between what was measured
    assert Reading("mean_loss", "along").of(uneven, common=3.0) == pytest.approx(along)
    assert Reading("mean_loss", "along").words == "mean of loss over the rounds"
    assert Reading("mean_loss", "along").of(run("a", 0, mean_loss=[3.0]), common=0.0) == 3.0
    assert math.isnan(Reading("mean_loss", "along").of(run("a", 0, mean_loss=[math.nan])))
    assert Reading("mean_loss").higher is False


def test_communication_rounds_are_messages_over_what_a_round_asks_for():
    one = run("PaME", 0, messages=[0, 6, 12])
    network = {"layers": {"peers": {"target": [0] * 5 + [1] * 5 + [2] * 5}}}
    sampled = Run(one.path, one.info, {"schedule": {"fraction": 0.2}}, network, one.metrics)
    assert Reading("communications").of(sampled) == 12 / 3
    uneven = Run(
        one.path, one.info, {"schedule": {"fraction": [0.2, 1, 0.3]}}, network, one.metrics
    )
    assert Reading("communications").of(uneven) == 12 / (1 + 5 + 2)
    everyone = Run(one.path, one.info, {"schedule": {"name": "Every"}}, network, one.metrics)
    assert Reading("communications").of(everyone) == 12 / 15


def test_claims_of_order_and_of_closeness_are_decided():
    ranked = {"": {"a": [0.9], "b": [0.8], "c": [0.7]}}
    assert answer(order(["a", "b", "c"], END, ""), ranked) == "holds"
    assert answer(order(["a", "c", "b"], END, ""), ranked) == "does not hold"
    assert answer(order(["c", "b", "a"], LOSS, ""), ranked, column="average_loss") == "holds"
    assert answer(close(["a", "b", "c"], END, 0.25, ""), ranked) == "holds"
    assert answer(close(["a", "b", "c"], END, 0.1, ""), ranked) == "does not hold"
    assert answer(close(["a", "b"], LOSS, 0.12, ""), ranked, column="average_loss") == "holds"
    assert (
        answer(close(["a", "c"], LOSS, 0.12, ""), ranked, column="average_loss") == "does not hold"
    )


def test_the_mean_along_a_curve_goes_as_far_as_all_came():
    runs = [
        run("slow", 0, mean_accuracy=[0.0, 0.2, 0.4, 0.9]),
        run("fast", 0, mean_accuracy=[0.0, 0.4, 0.5]),
    ]
    along = Reading("mean_accuracy", "along", "delay")
    some = Found({"": runs})
    assert some.values("", "slow", along) == {"0": pytest.approx(0.2)}, "without its last stretch"
    assert some.values("", "fast", along) == {"0": pytest.approx(0.325)}


def test_a_run_that_has_not_settled_at_its_end_never_does():
    one = run("PaME", 0, messages=[0, 6, 12])
    settled = Reading("messages", "settled")
    for rounds, expected in ((2, 12.0), (3, math.inf)):
        ended = Run(one.path, one.info | {"rounds": rounds}, {"rounds": 3}, {}, one.metrics)
        assert settled.of(ended) == expected


def test_where_something_was_found_is_said_with_what_was_varied():
    points = {
        "0.2, m 32": {"ours": [0.6], "other": [0.5]},
        "0.4, m 32": {"ours": [0.7], "other": [0.5]},
    }
    some = found(points)
    some.varied = "rate"
    assert AHEAD(some).where == "at the weakest, rate 0.2, m 32; 2 of 2 hold"


def test_momentum_is_judged_by_all_that_have_it():
    labels = ["I, gamma 0.2", "I, gamma 0.5", "II, gamma 0.2"]
    check = RECIPES["depositum"]["fig4"].checks[0]
    lucky = {"": {"gamma 0": [0.5], **dict(zip(labels, ([0.4], [0.6], [0.6]), strict=True))}}
    assert answer(check, lucky, column="average_train_loss") == "does not hold"
    good = {"": {"gamma 0": [0.5], **{label: [0.4] for label in labels}}}
    assert answer(check, good, column="average_train_loss") == "holds"


def test_slower_is_no_diminishing_gain():
    check = RECIPES["pame"]["fig2b"].checks[1]

    def at(*rounds):
        points = {
            f"{v}, m 32": [
                run("PaME", seed, average_loss=[0.0] * (many + 1)) for seed in range(DECIDE)
            ]
            for v, many in zip((0.1, 0.2, 0.3), rounds, strict=True)
        }
        return check(Found(points)).answer

    assert at(53, 40, 35) == "holds"
    assert at(53, 40, 20) == "does not hold"
    assert at(53, 82, 130) == "does not hold"


def test_a_lead_at_some_delay_is_one_over_each_other():
    check = RECIPES["dspodfl"]["fig2b"].checks[1]

    def over(*others):
        curves = {"DSpodFL": [0.1, 0.5, 0.5]} | {f"other {k}": y for k, y in enumerate(others)}
        runs = [
            run(label, seed, mean_accuracy=y) for label, y in curves.items() for seed in range(20)
        ]
        return check(Found({"": runs})).answer

    assert over([0.1, 0.3, 0.5], [0.1, 0.2, 0.6]) == "holds"
    assert over([0.1, 0.3, 0.5], [0.1, 0.45, 0.6]) == "does not hold"


def test_claims_of_margins_best_points_and_ratios_are_decided():
    points = {"small": {"ours": [0.6], "other": [0.5]}, "large": {"ours": [0.9], "other": [0.5]}}
    assert answer(grows("ours", END, ["small"], ["large"], ""), points) == "holds"
    assert answer(grows("ours", END, ["large"], ["small"], ""), points) == "does not hold"
    assert answer(grows("ours", END, ["small"], ["elsewhere"], ""), points) == "not decided here"
    assert answer(best_point("ours", END, "large", ""), points) == "holds"
    assert answer(best_point("ours", END, "small", ""), points) == "does not hold"
    assert (
        answer(across("ours", END, [("large", "small")], "above", 1.4, "", name=""), points)
        == "holds"
    )
    assert (
        answer(across("ours", END, [("large", "small")], "below", 1.4, "", name=""), points)
        == "does not hold"
    )
    assert answer(steady("other", END, ""), points) == "holds"
    assert answer(steady("ours", END, ""), points) == "does not hold"


def partly(points, planned):
    """Some of the points of a figure."""
    some = found(points)
    return Found(
        {
            p: [r for runs in labels.values() for r in runs.values()]
            for p, labels in some.runs.items()
        },
        planned=planned,
    )


def test_what_is_said_of_every_point_does_not_hold_by_some_of_them():
    good = {"ours": [0.6], "other": [0.5], "third": [0.4]}
    one, two = {"a": good}, {"a": good, "b": good}
    flat = {"ours": [0.6], "other": [0.55], "third": [0.4]}
    lead = {"a": {"ours": [0.6], "other": [0.5]}, "b": {"ours": [0.9], "other": [0.5]}}
    checks = {
        "ahead": ahead("ours", END, ""),
        "order": order(["ours", "other", "third"], END, ""),
        "close": close(["ours", "other"], END, 0.2, ""),
        "across": across("ours", END, [("a", "a"), ("a", "b")], "below", 1.01, "", name=""),
        "printed": printed({("a", "ours", END): 0.6, ("b", "ours", END): 0.6}, 0.01, ""),
    }
    for name, check in checks.items():
        assert check(partly(two, ["a", "b"])).answer == "holds", name
        verdict = check(partly(one, ["a", "b"]))
        assert verdict.answer == "not decided here", name
        assert "1 not run" in verdict.where or name == "order", name
    assert "2 not run" in checks["order"](partly(one, ["a", "b"])).where
    failing = {"a": {"ours": [0.1], "other": [0.5], "third": [0.6]}}
    assert checks["ahead"](partly(failing, ["a", "b"])).answer == "does not hold"
    best = best_point("ours", END, "b", "")
    assert best(partly(lead, ["a", "b"])).answer == "holds"
    assert best(partly(lead, ["a", "b", "c"])).answer == "not decided here"
    gap = grows("ours", END, ["a"], ["b"], "")
    assert gap(partly(lead, ["a", "b"])).answer == "holds"
    assert gap(partly({"a": lead["a"]}, ["a", "b"])).answer == "not decided here"
    robust = steady("ours", END, "")
    still = {"a": flat, "b": {"ours": [0.61], "other": [0.7], "third": [0.6]}}
    assert robust(partly(still, ["a", "b"])).answer == "holds"
    assert robust(partly(still, ["a", "b", "c"])).answer == "not decided here"


def test_an_algorithm_that_was_not_run_may_have_been_the_best():
    """Of one point nothing is steady, of one algorithm nothing is close, without one none leads."""
    one = {"a": {"ours": [0.6], "other": [0.5]}}
    assert answer(steady("ours", END, ""), one) == "not decided here"
    assert answer(close(["ours", "gone"], END, 0.5, ""), one) == "not decided here"
    assert answer(order(["ours", "other", "gone"], END, ""), one) == "not decided here"
    assert answer(ahead("ours", END, "", over=["other", "gone"]), one) == "not decided here"
    alone = {"a": {"ours": [0.6]}, "b": {"ours": [0.6]}}
    assert answer(steady("ours", END, ""), alone) == "not decided here"
    lacking = {"a": {"ours": [0.6], "other": [0.5]}, "b": {"ours": [0.6]}}
    assert answer(steady("ours", END, ""), lacking) == "not decided here"
    unknown = {"a": {"ours": [0.6], "other": [0.5], "third": [math.nan]}}
    assert answer(AHEAD, unknown) == "not decided here"


def test_a_ratio_to_a_run_that_never_arrived_is_none_or_all():
    points = {"a": {"ours": [0.5]}, "b": {"ours": [-math.inf]}}
    better = across("ours", END, [("a", "b")], "above", 1.0, "", name="")
    assert answer(better, points) == "holds"
    worse = across("ours", END, [("b", "a")], "above", 1.0, "", name="")
    assert answer(worse, points) == "does not hold"
    neither = across("ours", END, [("b", "b")], "above", 1.0, "", name="")
    assert answer(neither, points) == "not decided here"


def test_seeds_are_matched_by_name():
    """Where a seed is missing at one point the others keep their partners."""
    rows = {("a", "ours"): 0.0, ("a", "other"): 0.0, ("b", "ours"): 0.05, ("b", "other"): 0.0}
    runs = {
        point: [
            run(label, seed, mean_accuracy=[0.0, value + 0.1 * seed * (label == "ours")])
            for (where, label), value in rows.items()
            if where == point
            for seed in range(11)
            if (seed > 0 or point == "b")
        ]
        for point in "ab"
    }
    (part,) = grows("ours", END, ["a"], ["b"], "").parts(Found(runs))
    assert part.values == pytest.approx([0.05] * 10)


def test_seeds_are_in_the_order_of_numbers_however_they_were_run():
    runs = [run("ours", seed, mean_accuracy=[seed / 1000]) for seed in (100, 42, 101, 99)]
    some = Found({"": runs})
    assert some.seed_names == ["42", "99", "100", "101"]
    assert list(some.values("", "ours", END).values()) == [0.042, 0.099, 0.1, 0.101]
    assert some.only(["99", "100"]).values("", "ours", END) == {"99": 0.099, "100": 0.1}


def test_claims_of_printed_numbers_are_decided_within_their_tolerance():
    numbers = {("", "a", END): 0.70, ("", "b", END): 0.50}
    assert answer(printed(numbers, 0.03, ""), {"": {"a": [0.72], "b": [0.49]}}) == "holds"
    assert answer(printed(numbers, 0.03, ""), {"": {"a": [0.72], "b": [0.40]}}) == "does not hold"
    assert answer(printed(numbers, 0.03, ""), {"": {"a": [0.72], "b": [0.54]}}) == "does not hold"
    assert answer(printed(numbers, 0.03, ""), {"": {"other": [0.72]}}) == "not decided here"
    delays = {("", "a", Reading("delay")): 100.0}
    # The made-up runs have a delay of 10.
    assert answer(printed(delays, 9.5, "", ratio=True), {"": {"a": [0.5]}}) == "holds"
    assert answer(printed(delays, 8.5, "", ratio=True), {"": {"a": [0.5]}}) == "does not hold"


def test_a_printed_number_is_met_by_the_interval_and_not_by_the_median_alone():
    numbers = printed({("", "a", END): 0.70}, 0.03, "")
    wide = [0.60, 0.65, 0.69, 0.70, 0.71, 0.75, 0.80]
    verdict = numbers(found({"": {"a": wide}}))
    assert verdict.answer == "not decided here"
    assert verdict.interval == "70.0 % (60.0 to 80.0)"
    assert verdict.what == "the paper's number, to 3 points"
    assert "(paper 0.7)" in verdict.where


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Form(), ["holds", "does not hold"]),
        (
            Form(fit=True),
            ["holds", "not decided here"],
        ),  # fewer rounds cannot reach what the paper prints
        (Form(tiny=True), ["not decided here", "not decided here"]),
    ],
)
def test_smaller_forms_decide_less(form, expected):
    labels = {
        "MLL-SGD, tau 32, q 1": 0.5,
        "Local SGD, tau 32": 0.3,
        "MLL-SGD, tau 8, q 4": 0.5,
        "HL-SGD, tau 8, q 4": 0.3,
    }
    runs = [
        run(
            label,
            seed,
            average_train_loss=[1.0, 1 - end],
            average_accuracy=[0.0, end],
            seconds=[0, 1.0],
        )
        for label, end in labels.items()
        for seed in range(DECIDE)
    ]
    told = outcome("mll-sgd", "fig6ab", RECIPES["mll-sgd"]["fig6ab"], form, {"": runs})
    assert [told.verdicts[0].answer, told.verdicts[-1].answer] == expected


def test_what_nothing_measures_stays_open():
    assert decide([]) == "not decided here"
    assert (
        decide([Part("", (1.0,) * DECIDE, "above", 0.0), Part("", (), "above", 0.0)])
        == "not decided here"
    )
    assert (
        decide([Part("", (-1.0,) * DECIDE, "above", 0.0), Part("", (), "above", 0.0)])
        == "does not hold"
    )


def test_medians_and_quartiles_with_runs_that_never_arrived():
    assert middle([1.0, math.inf, 3.0]) == 3.0
    assert middle([1.0, math.inf]) == 1.0
    assert math.isnan(middle([]))
    assert quartiles([1.0]) == (1.0, 1.0)
    assert quartiles([4.0, 1.0, 2.0, 3.0]) == (1.0, 3.0)


@pytest.mark.parametrize(("best", "expected"), [("DSpodFL", "holds"), ("DGD", "does not hold")])
def test_a_recipes_verdict_follows_the_runs_and_reaches_the_page(best, expected):
    recipe = RECIPES["dspodfl"]["fig3b"]
    runs = {
        point: [
            run(label, seed, mean_accuracy=[0.1, 0.8 if label == best else 0.6], seconds=[0.0, 1.0])
            for label in ("DSpodFL", "DGD", "RandomizedGossip", "SporadicSGD", "DFedAvg")
            for seed in range(DECIDE)
        ]
        for point in recipe.points
    }
    (document,) = named(
        [
            outcome("dspodfl", "fig3b", recipe, Form(), runs).to_dict()
            | {"command": "peerloom reproduce <b>", "ran": {}, "reasons": [], "pictures": []}
        ]
    )
    assert document["verdicts"][0]["answer"] == expected
    pages = to_markdown([document], "page")
    assert set(pages) == {"page.md", "page/dspodfl-fig3b.md"}
    assert f"| {expected} |" in pages["page.md"]
    assert "60.0 %" in pages["page/dspodfl-fig3b.md"]
    html = to_html([document], {})
    assert "&lt;b&gt;" in html
    assert f">{expected}</td>" in html

"""Verdicts on made-up tables: what must hold, what must fail, and what stays open."""

import math
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
from peerloom.papers.recipes.page import to_html
from peerloom.papers.recipes.summary import to_markdown
from peerloom.runs import Run, Table
from peerloom.sweeps.readings import Found, Reading, middle, quartiles

END = Reading("mean_accuracy")
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
    """{point: {label: [final value of each seed]}}"""
    return Found(
        {
            point: [
                run(label, seed, **{column: [0.0, value]})
                for label, values in labels.items()
                for seed, value in enumerate(values)
            ]
            for point, labels in points.items()
        }
    )


def answer(check, *given, **named):
    return check(found(*given, **named)).answer


AHEAD = ahead("ours", END, "ours is best")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([0.9, 0.8, 0.9], [0.5, 0.6, 0.7], "holds"),
        ([0.5, 0.6, 0.7], [0.9, 0.8, 0.9], "does not hold"),
        ([0.9, 0.2, 0.9], [0.5, 0.6, 0.7], "not decided here"),  # one seed of three the other way
        ([0.9, 0.2, 0.9, 0.9, 0.9], [0.5] * 5, "holds"),  # one of five is beyond the quartile
        ([0.5, 0.5], [0.5, 0.5], "does not hold"),  # a tie is no lead
        ([0.5004], [0.5], "not decided here"),  # one seed may differ by as much by chance
        ([0.4996], [0.5], "not decided here"),
        ([0.502], [0.5], "holds"),
        ([0.5004, 0.5005], [0.5, 0.5], "holds"),  # two say something about chance
        ([math.nan], [0.5], "not decided here"),
    ],
)
def test_the_quartiles_decide(ours, theirs, expected):
    assert answer(AHEAD, {"": {"ours": ours, "other": theirs}}) == expected


def test_a_claim_fails_with_one_of_its_points():
    good, bad = {"ours": [0.9], "other": [0.5]}, {"ours": [0.5], "other": [0.9]}
    assert answer(AHEAD, {"a": good, "b": good}) == "holds"
    assert answer(AHEAD, {"a": good, "b": bad}) == "does not hold"
    verdict = AHEAD(found({"a": good, "b": bad}))
    assert "-40.0 points at the weakest of 2, b; 1 of 2 hold" in verdict.measured
    assert answer(ahead("ours", END, "", only=["a"]), {"a": good, "b": bad}) == "holds"
    assert answer(ahead("ours", END, "", by=0.5), {"a": good}) == "does not hold"
    assert AHEAD(found({"a": good}), judge=False).answer == "not decided here"


def test_runs_that_diverge_lose_and_runs_that_never_arrive_are_late():
    fine, gone = (
        run("ours", 0, mean_accuracy=[0.1, 0.2]),
        run("other", 0, "diverged", mean_accuracy=[0.1, 0.9]),
    )
    assert AHEAD(Found({"": [fine, gone]})).answer == "holds"
    delay = Reading("delay", level=("mean_accuracy", 0.5))
    first = ahead("ours", delay, "")
    early, late, never = (
        run(n, 0, mean_accuracy=v)
        for n, v in (("a", [0.0, 0.5, 1.0]), ("b", [0.0, 0.0, 0.5]), ("c", [0.0, 0.1, 0.2]))
    )
    assert [delay.of(one) for one in (early, late, never)] == [10.0, 20.0, math.inf]
    renamed = {
        name: Run(one.path, one.info | {"label": name}, {}, {}, one.metrics)
        for name, one in {"ours": early, "x": late}.items()
    }
    assert first(Found({"": list(renamed.values())})).answer == "holds"
    neither = [
        Run(never.path, never.info | {"label": name}, {}, {}, never.metrics)
        for name in ("ours", "x")
    ]
    assert first(Found({"": neither})).answer == "not decided here"


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
    assert AHEAD(some).measured.endswith("at the weakest of 2, rate 0.2, m 32; 2 of 2 hold")


def test_momentum_is_judged_by_all_that_have_it():
    labels = ["I, gamma 0.2", "I, gamma 0.5", "II, gamma 0.2"]
    check = RECIPES["depositum"]["fig4"].checks[0]
    lucky = {"": {"gamma 0": [0.5], **dict(zip(labels, ([0.4], [0.6], [0.6]), strict=True))}}
    assert answer(check, lucky, column="average_loss") == "does not hold"
    good = {"": {"gamma 0": [0.5], **{label: [0.4] for label in labels}}}
    assert answer(check, good, column="average_loss") == "holds"


def test_slower_is_no_diminishing_gain():
    check = RECIPES["pame"]["fig2b"].checks[1]

    def at(*rounds):
        points = {
            f"{v}, m 32": [run("PaME", 0, average_loss=[0.0] * (many + 1))]
            for v, many in zip((0.1, 0.2, 0.3), rounds, strict=True)
        }
        return check(Found(points)).answer

    assert at(53, 40, 35) == "holds"
    assert at(53, 40, 20) == "does not hold"
    assert at(53, 82, 130) == "does not hold"


def test_a_lead_at_some_delay_is_one_over_each_other():
    check = RECIPES["dspodfl"]["fig2b"].checks[1]

    def over(*others):
        runs = [run("DSpodFL", 0, mean_accuracy=[0.1, 0.5, 0.5])]
        return check(
            Found(
                {"": runs + [run(f"other {k}", 0, mean_accuracy=y) for k, y in enumerate(others)]}
            )
        ).answer

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


def test_claims_of_printed_numbers_are_decided_within_their_tolerance():
    numbers = {("", "a", END): 0.70, ("", "b", END): 0.50}
    assert answer(printed(numbers, 0.03, ""), {"": {"a": [0.72], "b": [0.49]}}) == "holds"
    assert answer(printed(numbers, 0.03, ""), {"": {"a": [0.72], "b": [0.40]}}) == "does not hold"
    assert answer(printed(numbers, 0.03, ""), {"": {"other": [0.72]}}) == "not decided here"
    delays = {("", "a", Reading("delay")): 100.0}
    # The made-up runs have a delay of 10.
    assert answer(printed(delays, 9.5, "", ratio=True), {"": {"a": [0.5]}}) == "holds"
    assert answer(printed(delays, 8.5, "", ratio=True), {"": {"a": [0.5]}}) == "does not hold"


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
        run(label, 0, average_loss=[1.0, 1 - end], average_accuracy=[0.0, end], seconds=[0.0, 1.0])
        for label, end in labels.items()
    ]
    told = outcome("mll-sgd", "fig6ab", RECIPES["mll-sgd"]["fig6ab"], form, {"": runs})
    assert [told.verdicts[0].answer, told.verdicts[-1].answer] == expected


def test_what_nothing_measures_stays_open():
    assert decide([]) == "not decided here"
    assert (
        decide([Part("", (1.0,), "above", 0.0), Part("", (), "above", 0.0)]) == "not decided here"
    )
    assert decide([Part("", (-1.0,), "above", 0.0), Part("", (), "above", 0.0)]) == "does not hold"


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
            for seed in range(3)
        ]
        for point in recipe.points
    }
    document = outcome("dspodfl", "fig3b", recipe, Form(), runs).to_dict() | {
        "command": "peerloom reproduce <b>",
        "folder": "runs",
    }
    assert document["verdicts"][0]["answer"] == expected
    page = to_markdown([document], {})
    assert f"| {expected} |" in page
    assert "60.0 %" in page
    html = to_html([document], {})
    assert "&lt;b&gt;" in html
    assert f">{expected}</td>" in html

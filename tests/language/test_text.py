"""Texts as numbers and windows; perplexity and the next-token loss against plain loops."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom.core import ConfigError, DataError
from peerloom.language import (
    Perplexity,
    Transformer,
    Windows,
    characters,
    encoded,
    next_token,
    pieces,
    tinyshakespeare,
)
from peerloom.registry import build, describe
from tests.builders import needs_data

NAME = "peerloom.language:characters"


def test_windows_that_are_counted_reach_from_end_to_end():
    tokens = torch.arange(101)
    windows = Windows(tokens, length=4, count=7)
    starts = [window[0].item() for window in windows]
    assert (starts[0], starts[-1], len(windows)) == (0, 96, 7)
    assert {b - a for a, b in pairwise(starts)} == {16}
    assert Windows(tokens, length=4, count=1)[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Windows(torch.arange(4), 4), "has 0 windows of 4 and one more, and 1 are wanted"),
        (lambda: Windows(torch.arange(9), 4, count=6), "has 5 windows of 4"),
        (lambda: Windows(torch.arange(9), 4, count=0), "and 0 are wanted. Ask for one"),
        (lambda: encoded("café", "acf"), "has 'é', which is not among the 3 letters"),
    ],
)
def test_texts_that_do_not_fit_are_refused(make, said):
    with pytest.raises(DataError, match=said):
        make()


def test_a_text_is_cut_for_its_clients():
    with pytest.raises(ConfigError, match="4 tokens cannot be cut into 5 pieces"):
        pieces(torch.arange(4), 5)
    assert torch.cat(pieces(torch.arange(12), 4)).tolist() == list(range(12))


def uneven(tokens):
    """A model that thinks of the next token by the last one alone."""
    return nn.Embedding.from_pretrained(torch.randn(tokens, tokens, dtype=torch.float64))


def test_the_loss_is_that_of_plain_loops():
    torch.manual_seed(0)
    model, batch = uneven(5), torch.randint(5, (3, 7))
    found = [
        -math.log(torch.softmax(model.weight[row[k]], 0)[row[k + 1]])
        for row in batch
        for k in range(6)
    ]
    assert next_token(model, batch).item() == pytest.approx(sum(found) / len(found))


def test_perplexity_is_that_of_all_samples_whatever_the_batches():
    torch.manual_seed(1)
    model, held = uneven(5), Windows(torch.randint(5, (60,)), 6, count=11)
    whole = next_token(model, torch.stack(list(held))).item()
    for batch in (1, 4, 11, 64):
        found = Perplexity(lambda: held, batch=batch)(model)
        assert found["loss"] == pytest.approx(whole)
        assert found["perplexity"] == pytest.approx(math.exp(whole))
    even = nn.Embedding.from_pretrained(torch.zeros(5, 5))
    assert Perplexity(lambda: held)(even)["perplexity"] == pytest.approx(5)


def test_no_place_sees_what_comes_after_it():
    torch.manual_seed(2)
    model, tokens = Transformer(9, width=8, layers=2, heads=2, length=6).double(), torch.arange(6)
    before, changed = model(tokens[None]), tokens.clone()
    changed[4] = 8
    after = model(changed[None])
    assert torch.equal(before[0, :4], after[0, :4])
    assert not torch.isclose(before[0, 4:], after[0, 4:]).all(dim=1).any()


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"width": 9, "heads": 2}, "width=9"), ({"tokens": 0}, "tokens=0"), ({"layers": 0}, "layer")],
)
def test_shapes_of_a_transformer_are_checked(settings, said):
    with pytest.raises(ConfigError, match=said):
        Transformer(**{"tokens": 9, "width": 8, "heads": 2} | settings)
    with pytest.raises(ConfigError, match="made for 4 tokens at once and is given 5"):
        Transformer(9, 8, 1, 2, length=4)(torch.zeros(1, 5).long())


@needs_data("tinyshakespeare")
def test_clients_have_different_plays_and_nobody_what_is_held_out():
    task, text = characters(3, length=8), tinyshakespeare()
    alphabet = sorted(set(text))
    told = ["".join(alphabet[k] for k in one[0]) for one in task.data]
    third = len(text) * 9 // 10 // 3
    # The last tenth is rounded down, so that what is left may be a letter longer.
    assert told == [text[at : at + 9] for at in (0, third, 2 * third)]
    assert len(task.data[0]) == third - 8
    judged = task.metrics.test()
    assert "".join(alphabet[k] for k in judged[0]) == text[-(len(text) // 10) :][:9]


@needs_data("tinyshakespeare")
def test_a_file_names_it_and_tables_show_its_perplexity():
    given = {"name": NAME, "clients": 3, "width": 8, "layers": 1, "heads": 1, "length": 8}
    task = build("problems", given, "problem")
    assert describe(task) == given
    exp = pl.Experiment(pl.graphs.ring(3), task, pl.rules.DSpodFL(lr=0.5), rounds=20)
    found = pl.simulate(exp).metrics
    assert found["mean_perplexity"][-1] < found["mean_perplexity"][0]
    own = found.row(-1)
    assert own["average_perplexity"] == pytest.approx(math.exp(own["average_loss"]))
    with pytest.raises(ConfigError, match="data"):
        pl.Experiment(pl.graphs.ring(4), task, pl.rules.DSpodFL(lr=0.5))

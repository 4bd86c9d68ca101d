"""A Flower app without a server: four shops forecast demand, each with its own days of the week.

The first part is an ordinary Flower app, as `flwr run` would take it; the last one runs it here. It
needs `pip install 'peerloom[flower]'`.
"""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

import peerloom as pl

SHOPS = 4


def sales(shop: int, count: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    """Days of the week as seven columns, and what was sold; a shop knows two or three days well."""
    dice = torch.Generator().manual_seed(shop)
    often = torch.ones(7).index_add(
        0, torch.arange(2 * shop, 2 * shop + 2) % 7, torch.full((2,), 9.0)
    )
    day = torch.multinomial(often, count, replacement=True, generator=dice)
    sold = torch.tensor([3.0, 1.0, 1.5, 2.0, 4.0, 6.0, 5.0])[day]
    noise = 0.5 * torch.randn(count, generator=dice)
    return nn.functional.one_hot(day, 7).float(), (sold + noise).unsqueeze(1)


def net() -> nn.Module:
    return nn.Linear(7, 1, bias=False)


app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """A pass over this shop's days; its state knows how many it has made."""
    model, (x, y) = net(), sales(int(context.node_config["partition-id"]))
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=msg.content["config"]["lr"])
    for part in torch.randperm(len(x)).split(20):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[part]), y[part]).backward()
        optimizer.step()
    passes = context.state["passes"]["made"] if "passes" in context.state else 0
    context.state["passes"] = ConfigRecord({"made": passes + 1})
    numbers = MetricRecord({"num-examples": len(x), "passes": passes + 1})
    found = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": numbers})
    return Message(content=found, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """The mean squared error on days that nobody trained on."""
    model, (x, y) = net(), sales(100 + int(context.node_config["partition-id"]))
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    with torch.no_grad():
        loss = nn.functional.mse_loss(model(x), y).item()
    numbers = MetricRecord({"eval_loss": loss, "num-examples": len(x)})
    return Message(content=RecordDict({"metrics": numbers}), reply_to=msg)


if __name__ == "__main__":
    problem = pl.hosts.FlowerApp(app, lambda: net().state_dict(), config={"lr": 0.05})
    silent = pl.schedules.Bernoulli(links=0.0)
    for name, schedule in (("alone", silent), ("together", pl.schedules.Always())):
        rule = pl.rules.DSpodFL(lr=1.0)
        exp = pl.Experiment(pl.graphs.ring(SHOPS), problem, rule, schedule, rounds=30, seed=1)
        metrics = pl.simulate(exp).metrics
        print(f"{name}: error {metrics['mean_loss'][0]:.2f} -> {metrics['mean_loss'][-1]:.2f}")

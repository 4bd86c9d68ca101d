"""Flower's messages to a ClientApp in this process: all that depends on Flower's versions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError

__all__ = ["Messages", "Reply"]

_ALIVE = 43200.0  # seconds for which a message is good, as Flower has it by default
# Where Flower keeps the conversion of legacy messages, the newest place first.
_LEGACY = ("flwr.compat.common.recorddict_compat", "flwr.common.recorddict_compat")
_NO_EVALUATION = "No evaluate function registered"


class Reply(NamedTuple):
    """What an app answered: arrays in the order in which they were sent, and numbers by name."""

    arrays: list[NDArray[Any]]
    numbers: dict[str, Any]


class Messages:
    """Calls one ClientApp, as Flower's own client does."""

    def __init__(self, app: Any, names: Sequence[str]) -> None:
        self._app, self._names = app, list(names)
        self._flower = import_module("flwr.app")
        self._serde = import_module("flwr.common.serde")
        self._proto = import_module("flwr.proto.recorddict_pb2")
        # Of client_fn: Flower asks for it in this way itself. Such apps speak the older messages.
        self._legacy = _legacy_messages() if app._call is not None else None

    def context(
        self, client: int, node: Mapping[str, Any], run: Mapping[str, Any], state: bytes
    ) -> Any:
        """A client's context with the state that these bytes hold."""
        kept = self._serde.recorddict_from_proto(self._proto.RecordDict.FromString(state))
        return self._flower.Context(
            run_id=1, node_id=client + 1, node_config=dict(node), state=kept, run_config=dict(run)
        )

    def state_of(self, context: Any) -> bytes:
        """A context's state as bytes; none where it is empty."""
        found = self._serde.recorddict_to_proto(context.state).SerializeToString(deterministic=True)
        return bytes(found)

    def send(
        self,
        kind: Literal["train", "evaluate"],
        arrays: Sequence[NDArray[Any]],
        config: Mapping[str, Any],
        context: Any,
    ) -> Reply:
        """What the app answers, which may change the context's state."""
        content = self._content(kind, arrays, config)
        try:
            reply = self._app(self._message(kind, content, context, config), context)
        except ValueError as error:
            if kind == "evaluate" and str(error).startswith(_NO_EVALUATION):
                return Reply([], {"num-examples": 0})
            raise
        if reply.has_error():
            raise RuntimeError(reply.error.reason or f"error {reply.error.code}")
        return self._read(kind, reply.content)

    def _message(self, kind: str, content: Any, context: Any, config: Mapping[str, Any]) -> Any:
        # With metadata, as Flower makes a message that has arrived: a new one would ask for the
        # task that this process runs, which it does not.
        about = self._flower.Metadata(
            run_id=context.run_id, message_id="1", src_node_id=0, dst_node_id=context.node_id,
            reply_to_message_id="", group_id=str(config["server-round"]),
            created_at=time.time(), ttl=_ALIVE, message_type=kind,
        )  # fmt: skip
        return self._flower.Message(content=content, metadata=about)

    def _content(self, kind: str, arrays: Sequence[NDArray[Any]], config: Mapping[str, Any]) -> Any:
        flower = self._flower
        if self._legacy is None:
            named = {name: flower.Array(one) for name, one in zip(self._names, arrays, strict=True)}
            return flower.RecordDict(
                {
                    "arrays": flower.ArrayRecord(named),
                    "config": flower.ConfigRecord(dict(config)),
                }
            )
        old = import_module("flwr.common")
        made = old.ndarrays_to_parameters(list(arrays))
        if kind == "train":
            return self._legacy.fitins_to_recorddict(old.FitIns(made, dict(config)), True)
        return self._legacy.evaluateins_to_recorddict(old.EvaluateIns(made, dict(config)), True)

    def _read(self, kind: str, content: Any) -> Reply:
        if self._legacy is None:
            numbers = {
                name: value
                for record in content.metric_records.values()
                for name, value in record.items()
            }
            return Reply(self._arrays_in(content) if kind == "train" else [], numbers)
        if kind == "train":
            done = self._legacy.recorddict_to_fitres(content, True)
            _check_status(done.status)
            arrays = import_module("flwr.common").parameters_to_ndarrays(done.parameters)
            return Reply(
                [np.asarray(one) for one in arrays],
                {**done.metrics, "num-examples": done.num_examples},
            )
        judged = self._legacy.recorddict_to_evaluateres(content)
        _check_status(judged.status)
        numbers = {"loss": judged.loss, **judged.metrics, "num-examples": judged.num_examples}
        return Reply([], numbers)

    def _arrays_in(self, content: Any) -> list[NDArray[Any]]:
        """The arrays of the one record of a reply, in the order in which they were sent."""
        records = list(content.array_records.values())
        if len(records) != 1:
            raise ValueError(
                f"it returned {len(records)} records of arrays, and a row is made of one"
            )
        (record,) = records
        if set(record) != set(self._names):
            raise ValueError(
                f"it returned arrays {', '.join(map(str, record))}, but was sent "
                f"{', '.join(self._names)}"
            )
        return [record[name].numpy() for name in self._names]


def _check_status(status: Any) -> None:
    if status.code.name not in ("OK", "EVALUATE_NOT_IMPLEMENTED"):
        raise RuntimeError(f"{status.code.name}: {status.message}")


def _legacy_messages() -> Any:
    for name in _LEGACY:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise MissingExtraError("A Flower app with client_fn", "flwr", "flower")

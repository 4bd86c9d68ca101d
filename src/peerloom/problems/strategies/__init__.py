"""Ways to the same gradients: row by row, by vmap, in closed form."""

from .choose import STRATEGIES, choose
from .closed_form import ClosedForm
from .gradients import Gradients, Seeds
from .large_batches import LargeBatches
from .modules import BatchNorm
from .row_loop import RowLoop
from .vmap import Vmap

__all__ = [
    "STRATEGIES",
    "BatchNorm",
    "ClosedForm",
    "Gradients",
    "LargeBatches",
    "RowLoop",
    "Seeds",
    "Vmap",
    "choose",
]

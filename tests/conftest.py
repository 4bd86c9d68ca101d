"""Settings that all tests share."""

import os

from hypothesis import HealthCheck, settings

# On tensors this small a second thread costs more than it brings. Set before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every run: a failure that is seen once is seen again.
settings.register_profile(
    "peerloom",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("peerloom")

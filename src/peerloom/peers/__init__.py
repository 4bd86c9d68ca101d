"""Rows in processes of their own, on one machine or many: the same rules, over TLS. See `start` and `federation`."""

__all__: list[str] = []

"""One row per process, on one machine or many: the same rules, over TLS links."""

__all__: list[str] = []

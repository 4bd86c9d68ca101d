"""The five papers: their figures and tables as recipes, and their theorems.

Nothing else in Peerloom imports this part. The command `reproduce` and the theorems that `advise`
asks for are found by the entry points in pyproject.toml.
"""

__all__: list[str] = []

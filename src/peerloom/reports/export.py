"""Pictures as files: SVG, PNG, and tables of what is plotted as CSV and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path

from ..errors import require
from .picture import Picture
from .sheet import draw

__all__ = ["FORMATS", "PICTURES", "export"]

PICTURES = "pictures"  # the folder of pictures beside a page
_DENSITY = 2  # pixels of a PNG for each of the picture's


def export(
    pictures: Iterable[Picture], folder: Path, formats: Sequence[str], before: str = ""
) -> list[Path]:
    """Write every picture in every format, as folder/NAME.FORMAT; `before` begins each name."""
    made = []
    for picture in pictures if formats else ():
        folder.mkdir(parents=True, exist_ok=True)
        for kind in dict.fromkeys(formats):
            path = folder / f"{before}{picture.name}.{kind}"
            path.write_bytes(FORMATS[kind](picture))
            made.append(path)
    return made


def _svg(picture: Picture) -> bytes:
    return draw(picture).encode()


def _png(picture: Picture) -> bytes:
    require("PNG", "png", "resvg_py")
    from resvg_py import svg_to_bytes

    return bytes(svg_to_bytes(svg_string=draw(picture), zoom=_DENSITY))


def _csv(picture: Picture) -> bytes:
    return picture.table().to_csv().encode()


def _parquet(picture: Picture) -> bytes:
    file = BytesIO()
    picture.table().to_polars().write_parquet(file)
    return file.getvalue()


FORMATS: dict[str, Callable[[Picture], bytes]] = {
    "svg": _svg,
    "png": _png,
    "csv": _csv,
    "parquet": _parquet,
}

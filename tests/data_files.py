"""Small files in the formats of public data sets, written byte by byte."""

import struct

import numpy as np


def idx(array):
    """An array as an IDX file, the format of MNIST."""
    code = {"u1": 8, "i4": 12}[array.dtype.str[1:]]
    return (
        bytes([0, 0, code, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def batch(records):
    """Records [samples, 3073] as Python 2 pickled a batch of CIFAR-10."""
    labels, pixels = records[:, 0], np.ascontiguousarray(records[:, 1:])
    size = struct.pack("<H", len(records))
    return b"".join([
        b"\x80\x02}q\x01(", _short(b"batch_label"), b"q\x02", _short(b"training batch 1 of 5"),
        b"q\x03", _short(b"labels"), b"q\x04]q\x05(", *(b"K" + bytes([label]) for label in labels),
        b"e", _short(b"data"),
        b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\n",
        b"q\x08K\x00\x85U\x01b\x87Rq\x09",
        b"(K\x01M", size, b"M\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b",
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T",
        struct.pack("<I", pixels.nbytes), pixels.tobytes(), b"tb", _short(b"filenames"),
        b"r\x0c\x00\x00\x00]q\x0d(", *(_short(b"image.png") for _ in labels), b"eu.",
    ])  # fmt: skip


def some_records(count=3, seed=0):
    """Random records of CIFAR-10: a label and 3072 pixels each."""
    return np.random.default_rng(seed).integers(0, 256, (count, 3073)).astype(np.uint8)


def _short(text):
    """Pickle's opcode for a text of less than 256 bytes."""
    return b"U" + bytes([len(text)]) + text

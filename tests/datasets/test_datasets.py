"""Files of public data sets: where they are found, how they are read, what is refused."""

import dataclasses
import gzip
import hashlib
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.core import DataError
from peerloom.datasets import CATALOGUE, cache, locate, locations, read
from peerloom.datasets.formats import parse
from peerloom.datasets.pickled import read_batch
from tests.data_files import batch, idx, some_records

SMALL = {  # in place of the real contents, with the real names
    "train-images-idx3-ubyte": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "train-labels-idx1-ubyte": np.array([7, 8], np.uint8),
    "t10k-images-idx3-ubyte": np.arange(12, dtype=np.uint8).reshape(1, 3, 4),
    "t10k-labels-idx1-ubyte": np.array([9], np.uint8),
}


def small_source(monkeypatch, name, arrays):
    """The catalogue's entry with its own names and folders, but these contents."""
    source = CATALOGUE[name]
    items = tuple(
        dataclasses.replace(
            item,
            size=arrays[item.file].nbytes,
            sha256=hashlib.sha256(arrays[item.file].tobytes()).hexdigest(),
        )
        for item in source.items
    )
    monkeypatch.setitem(CATALOGUE, name, dataclasses.replace(source, items=items))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A machine without data: every place is below a folder of the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "KERAS_HOME", "PEERLOOM_DATA"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    small_source(monkeypatch, "fashion-mnist", SMALL)
    small_source(monkeypatch, "mnist", SMALL)
    return tmp_path


def put(folder, compressed, arrays=SMALL):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))


LAYOUTS = [
    ("work/data/FashionMNIST/raw", "torchvision", False),
    ("work/data/FashionMNIST/raw", "torchvision", True),
    ("home/.keras/datasets/fashion-mnist", "keras", True),
    ("home/.cache/peerloom/data/fashion-mnist", "cache", False),
    ("mine/fashion-mnist", "PEERLOOM_DATA", True),
    ("mine/FashionMNIST/raw", "PEERLOOM_DATA", False),
]


@pytest.mark.parametrize(("folder", "place", "compressed"), LAYOUTS)
def test_files_are_found_where_other_libraries_keep_them(
    home, monkeypatch, folder, place, compressed
):
    monkeypatch.setenv("PEERLOOM_DATA", str(home / "mine"))
    put(home / folder, compressed)
    assert locate(CATALOGUE["fashion-mnist"]).location == place
    found = read("fashion-mnist")
    assert list(found) == list(SMALL)
    for name, array in SMALL.items():
        assert np.array_equal(found[name], array)


def test_places_are_searched_in_order(home, monkeypatch):
    monkeypatch.setenv("PEERLOOM_DATA", f"{home}/one:{home}/two")
    assert [name for name, _ in locations()] == ["PEERLOOM_DATA"] * 2 + [
        "cache",
        "torchvision",
        "keras",
        "debian",
    ]
    assert str(locations()[-1][1]) == "/usr/share/datasets"
    for base in ("home/.keras/datasets", "work/data", "home/.cache/peerloom/data", "two", "one"):
        put(home / base / "fashion-mnist", compressed=True)
        assert locate(CATALOGUE["fashion-mnist"]).folder.resolve() == home / base / "fashion-mnist"
    put(home / "named", compressed=False)
    assert locate(CATALOGUE["fashion-mnist"], home / "named").folder == home / "named"


def test_a_folder_that_is_named_is_the_only_one_searched(home):
    put(home / "home/.cache/peerloom/data/fashion-mnist", compressed=True)
    with pytest.raises(DataError, match="elsewhere"):
        read("fashion-mnist", home / "elsewhere")


def test_an_incomplete_place_is_passed_over(home):
    put(home / "home/.cache/peerloom/data/fashion-mnist", compressed=True)
    (home / "home/.cache/peerloom/data/fashion-mnist/t10k-labels-idx1-ubyte.gz").unlink()
    assert locate(CATALOGUE["fashion-mnist"]) is None
    put(home / "home/.keras/datasets/fashion-mnist", compressed=True)
    assert locate(CATALOGUE["fashion-mnist"]).location == "keras"


def test_the_cache_follows_xdg(home, monkeypatch):
    assert cache() == home / "home/.cache/peerloom/data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    assert cache() == home / "xdg/peerloom/data"


def test_keras_keeps_mnist_in_one_archive(home):
    (home / "home/.keras/datasets").mkdir(parents=True)
    members = dict(zip(("x_train", "y_train", "x_test", "y_test"), SMALL.values(), strict=True))
    np.savez(home / "home/.keras/datasets/mnist.npz", **members)
    for array, wanted in zip(read("mnist").values(), SMALL.values(), strict=True):
        assert np.array_equal(array, wanted)


def test_missing_data_say_what_to_do(home):
    with pytest.raises(DataError) as caught:
        read("fashion-mnist")
    for word in (
        "'fashion-mnist' are not on this machine",
        ".cache/peerloom/data",
        ".keras",
        "/usr/share/datasets",
    ):
        assert word in str(caught.value)
    assert "PEERLOOM_DATA is not set" in str(caught.value)
    assert "peerloom data get fashion-mnist (30.9 MB)" in str(caught.value)


def damaged(content, compressed):
    one = bytearray(content)
    one[-1] ^= 1
    return gzip.compress(bytes(one)) if compressed else bytes(one)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "train-images-idx3-ubyte",
            damaged(idx(SMALL["train-images-idx3-ubyte"]), False),
            "sha256.*wanted",
        ),
        (
            "train-images-idx3-ubyte.gz",
            damaged(idx(SMALL["train-images-idx3-ubyte"]), True),
            "sha256.*wanted",
        ),
        (
            "train-images-idx3-ubyte",
            idx(SMALL["train-images-idx3-ubyte"])[:-1],
            "should hold \\[2, 3, 4\\]",
        ),
        ("train-images-idx3-ubyte", b"<html>not found</html>", "no idx file"),
        ("train-images-idx3-ubyte", b"", "cannot be read"),
        ("train-images-idx3-ubyte.gz", b"not compressed", "cannot be read"),
        (
            "train-images-idx3-ubyte.gz",
            gzip.compress(idx(SMALL["train-images-idx3-ubyte"]))[:-9],
            "cannot be read",
        ),
        ("train-images-idx3-ubyte.gz", gzip.compress(bytes(10**7)), "no idx file|sha256"),
    ],
    # Names, not contents: gzip writes the time into its header, and each process of the tests must
    # collect the same.
    ids=[
        "other bit",
        "other bit in gz",
        "short",
        "web page",
        "empty",
        "not compressed",
        "cut short",
        "too much",
    ],
)
def test_damaged_files_are_refused(home, name, content, says):
    folder = home / "home/.cache/peerloom/data/fashion-mnist"
    put(folder, compressed=name.endswith(".gz"))
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=says):
        read("fashion-mnist")


def test_an_archive_with_objects_in_it_is_refused(home):
    (home / "home/.keras/datasets").mkdir(parents=True)
    thing = np.array([{"a": 1}], object)
    np.savez(
        home / "home/.keras/datasets/mnist.npz",
        x_train=thing,
        y_train=thing,
        x_test=thing,
        y_test=thing,
    )
    with pytest.raises(DataError, match="cannot be read"):
        read("mnist")


def test_whole_numbers_of_four_bytes_are_read():
    wanted = np.array([[1, -2], [300, 70_000]], ">i4")
    assert np.array_equal(parse("labels-idx2-int", np.frombuffer(idx(wanted), np.uint8)), wanted)


def test_batches_of_cifar_are_read_without_unpickling():
    records = some_records()
    assert np.array_equal(read_batch(batch(records)), records)
    assert np.array_equal(parse("data_batch_1", np.frombuffer(batch(records), np.uint8)), records)
    assert np.array_equal(parse("data_batch_1.bin", records.reshape(-1)), records)
    # The file of the test is one that Python reads alike.
    honest = pickle.loads(batch(records), encoding="bytes")
    assert np.array_equal(honest[b"data"], records[:, 1:])


class Malice:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_that_call_something_are_refused_and_not_run(protocol):
    with pytest.raises(DataError):
        read_batch(pickle.dumps({b"data": Malice(), b"labels": [1]}, protocol))


def test_fewer_pixels_than_labels_are_refused():
    records = some_records()
    pixels = np.ascontiguousarray(records[:, 1:]).tobytes()
    fewer = struct.pack("<I", len(pixels) - 1) + pixels[:-1]
    with pytest.raises(DataError, match="with 3 labels"):
        read_batch(batch(records).replace(struct.pack("<I", len(pixels)) + pixels, fewer))


def test_names_of_other_things_are_refused():
    with pytest.raises(DataError, match="names something to call"):
        read_batch(batch(some_records()).replace(b"cnumpy\nndarray\n", b"cposix\nsystem\n"))


@pytest.mark.parametrize(
    "content", [b"", b".", b"}.", b"(((", b"]e.", b"K\x01R.", b"}(U\x04data}u.", b"Nb.", b"\x87."]
)
def test_nonsense_is_refused(content):
    with pytest.raises(DataError):
        read_batch(content)


@given(st.integers(0, 300), st.integers(0, 255), st.integers(0, 40))
def test_no_change_of_the_head_gets_past_with_anything_but_records(at, value, cut):
    content = bytearray(batch(some_records(2)))
    content[at] = value
    try:
        found = read_batch(bytes(content[: len(content) - cut]))
    except DataError:
        return
    assert found.shape == (2, 3073)
    assert cut == 0


@pytest.mark.slow
def test_cifar_is_the_same_in_both_of_its_forms(cifar10_root):
    forms = [read("cifar10", cifar10_root / f"cifar-10-batches-{form}") for form in ("bin", "py")]
    assert list(forms[0]) == list(forms[1])
    for binary, python in zip(*(form.values() for form in forms), strict=True):
        assert binary.shape == (10_000, 3073)
        assert np.array_equal(binary, python)
    assert locate(CATALOGUE["cifar10"], cifar10_root).folder.name == "cifar-10-batches-bin"

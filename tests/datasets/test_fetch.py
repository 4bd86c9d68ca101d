"""Fetching over the network, from a server of the tests: resumed, checked, refused."""

import dataclasses
import gzip
import hashlib
import io
import json
import re
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from peerloom.cli.data import get_command
from peerloom.core import ConfigError, DataError
from peerloom.datasets import CATALOGUE, fetch, locate, read_item
from tests.builders import needs_data
from tests.command import peerloom
from tests.data_files import idx, some_records

IMAGES = np.random.default_rng(0).integers(0, 256, (400, 28, 28)).astype(np.uint8)


class Server:
    """Serves bytes by name; may break off after some bytes, ignore ranges, or be refused a name."""

    def __init__(self):
        self.files, self.ranges, self.break_after, self.knows_ranges, self.busy = (
            {},
            [],
            [],
            True,
            0,
        )
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                content = server.files.get(self.path.lstrip("/"))
                if server.busy:
                    server.busy -= 1
                    return self.send_error(503)
                if content is None:
                    return self.send_error(404)
                asked = self.headers.get("Range") if server.knows_ranges else None
                server.ranges.append(self.headers.get("Range"))
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
                if asked and start >= len(content):
                    return self.send_error(416)
                self.send_response(206 if asked else 200)
                self.send_header("Content-Length", str(len(content) - start))
                if asked:
                    self.send_header(
                        "Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"
                    )
                self.end_headers()
                limit = server.break_after.pop(0) if server.break_after else len(content)
                self.wfile.write(content[start : start + limit])
                return None

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def of(content):
    return {"size": content.nbytes, "sha256": hashlib.sha256(content.tobytes()).hexdigest()}


@pytest.fixture
def one(server):
    """A data set of one file, served as it should be."""
    source = CATALOGUE["fashion-mnist"]
    item = dataclasses.replace(source.items[0], **of(IMAGES))
    server.files["train-images-idx3-ubyte.gz"] = gzip.compress(idx(IMAGES))
    return dataclasses.replace(source, items=(item,), addresses=(server.address,))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_data_set_is_fetched_unpacked_and_checked(one, tmp_path, server):
    seen = []
    (path,) = fetch(one, tmp_path / "new" / "folder", progress=lambda *told: seen.append(told))
    assert names(path.parent) == ["train-images-idx3-ubyte"]
    assert np.array_equal(read_item(one.items[0], path), IMAGES)
    size = len(server.files["train-images-idx3-ubyte.gz"])
    assert seen[0] == ("train-images-idx3-ubyte.gz", 0, size)
    assert seen[-1] == ("train-images-idx3-ubyte.gz", size, size)


def test_what_is_here_is_not_fetched_again(one, tmp_path, server):
    (path,) = fetch(one, tmp_path)
    fetch(one, tmp_path)
    assert server.ranges == [None]
    path.write_bytes(b"damaged")
    fetch(one, tmp_path)
    assert server.ranges == [None, None]
    assert np.array_equal(read_item(one.items[0], path), IMAGES)


def test_a_broken_transfer_goes_on_where_it_stopped(one, tmp_path, server):
    server.break_after = [100_000, 50_000]
    (path,) = fetch(one, tmp_path)
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert np.array_equal(read_item(one.items[0], path), IMAGES)


def test_the_next_call_goes_on_too(one, tmp_path, server):
    server.break_after = [10_000, 10_000, 10_000, 10_000]
    with pytest.raises(DataError, match=r"broke off after 40,000 of .* the same command goes on"):
        fetch(one, tmp_path)
    assert names(tmp_path) == ["train-images-idx3-ubyte.gz.part"]
    (path,) = fetch(one, tmp_path)
    assert server.ranges[-1] == "bytes=40000-"
    assert names(tmp_path) == ["train-images-idx3-ubyte"]
    assert np.array_equal(read_item(one.items[0], path), IMAGES)


def test_a_server_without_ranges_starts_anew(one, tmp_path, server):
    server.knows_ranges, server.break_after = False, [100_000]
    (path,) = fetch(one, tmp_path)
    assert np.array_equal(read_item(one.items[0], path), IMAGES)


def test_a_whole_part_that_was_never_unpacked_is_used(one, tmp_path, server):
    (tmp_path / "train-images-idx3-ubyte.gz.part").write_bytes(
        server.files["train-images-idx3-ubyte.gz"]
    )
    (path,) = fetch(one, tmp_path)
    assert np.array_equal(read_item(one.items[0], path), IMAGES)


@pytest.mark.parametrize("how", ["other numbers", "not compressed", "cut", "too much"])
def test_a_wrong_file_is_refused_and_not_kept(one, tmp_path, server, how):
    right = server.files["train-images-idx3-ubyte.gz"]
    wrong = {
        "other numbers": gzip.compress(idx(255 - IMAGES)),
        "not compressed": b"<html>moved</html>",
        "cut": right[:-1000],
        "too much": gzip.compress(idx(IMAGES) + bytes(10**6)),
    }
    server.files["train-images-idx3-ubyte.gz"] = wrong[how]
    with pytest.raises(DataError, match="not the data set"):
        fetch(one, tmp_path)
    assert names(tmp_path) == []
    server.files["train-images-idx3-ubyte.gz"] = right
    fetch(one, tmp_path)
    assert names(tmp_path) == ["train-images-idx3-ubyte"]


def test_a_part_of_another_file_is_refused(one, tmp_path):
    """A part file of something else fails its checksum, and the next call starts anew."""
    (tmp_path / "train-images-idx3-ubyte.gz.part").write_bytes(bytes(1000))
    with pytest.raises(DataError, match="not the data set"):
        fetch(one, tmp_path)
    fetch(one, tmp_path)


def test_the_next_address_is_tried(one, tmp_path, server):
    both = dataclasses.replace(one, addresses=(f"{server.address}/gone", server.address))
    fetch(both, tmp_path)
    with pytest.raises(DataError, match=r"gone/train-images-idx3-ubyte.gz: 404"):
        fetch(dataclasses.replace(one, addresses=(f"{server.address}/gone",)), tmp_path / "other")


def test_a_busy_server_is_asked_again(one, tmp_path, server):
    server.busy = 2
    fetch(one, tmp_path)
    server.busy = 10
    with pytest.raises(DataError, match="503"):
        fetch(one, tmp_path / "other")


def test_only_the_web_is_fetched_from(one, tmp_path):
    with pytest.raises(DataError, match="http:// or https://"):
        fetch(one, tmp_path, address=f"file://{tmp_path}")


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def test_items_are_taken_out_of_archives_and_nothing_else(tmp_path, server):
    records, letters = some_records(4), CATALOGUE["emnist-letters"]
    cifar = CATALOGUE["cifar10"]
    server.files["cifar-10-binary.tar.gz"] = tarred(
        {
            "../escape": b"x",
            "cifar-10-batches-bin/data_batch_1.bin": records.tobytes(),
            "batches.meta.txt": b"cat",
        }
    )
    binary = dataclasses.replace(cifar, items=(dataclasses.replace(cifar.items[0], **of(records)),))
    (path,) = fetch(binary, tmp_path / "cifar10", server.address)
    assert np.array_equal(read_item(binary.items[0], path), records)
    name = letters.items[0].file
    server.files["gzip.zip"] = zipped(
        {f"gzip/{name}.gz": gzip.compress(idx(IMAGES)), "../escape": b"x"}
    )
    grey = dataclasses.replace(
        letters, items=(dataclasses.replace(letters.items[0], **of(IMAGES)),)
    )
    (path,) = fetch(grey, tmp_path / "emnist-letters", server.address)
    assert np.array_equal(read_item(grey.items[0], path), IMAGES)
    assert [len(names(folder)) for folder in tmp_path.iterdir()] == [1, 1]
    server.files["gzip.zip"] = zipped({"something": b"else"})
    with pytest.raises(DataError, match="holds 0 files named"):
        fetch(grey, tmp_path / "again", server.address)


HEART = "heart-disease"


@pytest.mark.slow
@needs_data(HEART)
def test_the_command_fetches_and_the_list_shows_it(tmp_path, server):
    """With the real files of the smallest data set, where they are on this machine."""
    for name, (path, _) in locate(CATALOGUE[HEART]).files.items():
        server.files[name] = path.read_bytes()
    empty = {
        "HOME": str(tmp_path),
        "PEERLOOM_DATA": str(tmp_path / "none"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    got = peerloom(
        "data", "get", HEART, "--from", server.address, "--json", cwd=tmp_path, more=empty
    )
    assert got.returncode == 0, got.stderr
    assert len(json.loads(got.stdout)["files"][HEART]) == 4
    (tmp_path / "cache/peerloom/data/heart-disease/processed.va.data").write_text("63,1,?\n")
    listed = peerloom("data", "list", "--check", "--json", cwd=tmp_path, more=empty)
    assert listed.returncode == 4
    (entry,) = [entry for entry in json.loads(listed.stdout)["data"] if entry["name"] == HEART]
    assert (entry["place"], entry["state"]) == ("cache", "wrong")
    server.files.clear()
    failed = peerloom("data", "get", HEART, "--from", server.address, cwd=tmp_path, more=empty)
    assert failed.returncode == 4
    assert "404" in failed.stderr


@pytest.mark.slow
@needs_data(HEART)
def test_what_is_here_and_right_is_left_alone(tmp_path):
    """Wherever it is found: nothing is asked of the network, which this could not reach."""
    folder = locate(CATALOGUE[HEART]).folder
    here = {
        "HOME": str(tmp_path),
        "PEERLOOM_DATA": str(folder.parent),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = peerloom("data", "get", HEART, cwd=tmp_path, more=here)
    assert done.returncode == 0, done.stderr
    assert f"is here already, in {folder}" in re.sub(r"\s+", " ", done.stdout)


def test_an_unknown_name_is_a_usage_error():
    with pytest.raises(ConfigError, match="fashion-mnist"):
        get_command(["fashion"], None, None, False)


def test_a_folder_that_cannot_be_written_is_said(one, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        fetch(one, tmp_path / "file")

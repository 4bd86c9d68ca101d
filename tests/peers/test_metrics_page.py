"""The metrics page under visitors of this machine who are silent, drip, or come in crowds."""

import contextlib
import socket
import threading
import time
import urllib.request

import pytest

from peerloom.peers import metrics_page
from peerloom.peers.metrics_page import MetricsPage
from tests.federation import free_ports, until


@pytest.fixture
def page(monkeypatch):
    """The address of a page with one line."""
    monkeypatch.setattr(metrics_page, "exposition", lambda facts: "peerloom_iteration 7\n")
    monkeypatch.setattr(metrics_page, "_VISIT", 60.0)  # nobody goes by itself
    port, before = free_ports(1)[0], threading.active_count()
    with MetricsPage(f"127.0.0.1:{port}", dict):
        yield "127.0.0.1", port
    assert until(lambda: threading.active_count() <= before), "no visitor's thread is left"


def read(page):
    with urllib.request.urlopen(f"http://{page[0]}:{page[1]}/metrics", timeout=5.0) as answer:
        return answer.read()


def test_a_crowd_takes_eight_threads_and_keeps_nobody_out(page, capfd):
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for number in range(100):
            silent = stack.enter_context(socket.create_connection(page))
            if number % 2:
                silent.sendall(b"GET /")
        assert read(page) == b"peerloom_iteration 7\n"
        assert until(lambda: threading.active_count() <= before + 8)
    assert capfd.readouterr() == ("", ""), "who goes is not told"


def test_a_visit_is_over_after_some_seconds_however_it_drips(page, monkeypatch):
    monkeypatch.setattr(metrics_page, "_VISIT", 0.4)
    with socket.create_connection(page) as slow:
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() < begin + 5.0:
                slow.sendall(b"x")
                time.sleep(0.02)
        assert time.monotonic() < begin + 3.0
    assert read(page) == b"peerloom_iteration 7\n"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{}", 200),
        ("localhost:{}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{}", 200),
        (None, 200),
        ("metrics.example.org:{}", 421),
        ("127.0.0.1.example.org", 421),
        ("localhost.example.org:{}", 421),
        ("192.0.2.1:{}", 421),
        ("[2001:db8::1]:{}", 421),
        ("", 421),
    ],
)
def test_a_page_of_the_web_reads_nothing_under_a_name_that_leads_here(page, host, status):
    line = "" if host is None else f"Host: {host.format(page[1])}\r\n"
    with socket.create_connection(page) as visitor:
        visitor.sendall(f"GET /metrics HTTP/1.0\r\n{line}\r\n".encode())
        answer = visitor.makefile("rb").read()
    assert int(answer.split()[1]) == status
    assert (b"peerloom_iteration" in answer) == (status == 200)


def test_an_error_of_the_page_is_logged_and_ends_one_visit(page, monkeypatch, caplog):
    monkeypatch.setattr(metrics_page, "exposition", lambda facts: 1 / 0)
    with pytest.raises(OSError, match=r"."):
        read(page)
    assert until(lambda: "ZeroDivisionError" in caplog.text)
    monkeypatch.undo()

"""A folder of runs in a browser: what is listed, compared, and kept from everybody else."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from support.pages import Page
from support.profiles import by_hand
from trn3.report.run_server import RunServer
from trn3.report.saved_runs import RunFolder

NASTY = "<b onclick=x>&\x1b[31m\u202e\"'"


def figures(kernel: str, latency_us: float, **more: object) -> dict[str, object]:
    engine = {"engine": "tensor", "instructions": 3, "busy_us": latency_us / 4}
    line = {"file": "/a/k.py", "line": 7, "function": "k", "critical_us": latency_us / 2}
    return {
        "kernel": kernel, "arch": "trn3", "latency_us": latency_us, "instructions": 12,
        "compile": {"level": "nki"}, "dma_bytes": 2048, "verdict": "Bound by waiting.",
        "engines": [engine], "lines": [line], **more,
    }  # fmt: skip


def save(folder: Path, document: object, report: str = "<p>a report</p>") -> None:
    folder.mkdir(parents=True)
    (folder / "profile.json").write_text(json.dumps(document), "utf-8")
    (folder / "report.html").write_text(report, "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    save(root / "one", {"figures": figures("slow", 80.5)})
    save(root / "deep/er/two", {"figures": figures("fast", 20.0, mfu=0.5)})
    save(root / NASTY, {"figures": figures(f"</script>{NASTY}", 40.0)})
    (root / "empty").mkdir()
    os.utime(root / "one/profile.json", (1, 1))
    return root


@pytest.fixture
def server(folder: Path) -> Iterator[RunServer]:
    with RunServer(RunFolder(folder)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: RunServer,
    path: str,
    *,
    method: str = "GET",
    host: str | None = None,
    whole: bool = False,
) -> tuple[int, bytes, http.client.HTTPMessage]:
    """Ask for a path behind the token, or for a whole one, exactly as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path if whole else f"/{server.token}/{path}", skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def page(server: RunServer, path: str = "") -> Page:
    status, content, headers = ask(server, path)
    assert status == 200
    shown = Page(content.decode())
    [policy] = [meta["content"] for meta in shown.metas if "http-equiv" in meta]
    assert headers["Content-Security-Policy"] == policy
    return shown


def test_runs_are_listed_with_what_they_are(server: RunServer) -> None:
    shown = page(server)
    assert shown.panes == ["runs"]
    listed = shown.json("trn3-summary")["runs"]
    assert {run["folder"] for run in listed} == {"one", "deep/er/two", NASTY}
    assert listed[-1]["folder"] == "one", "the oldest is the last"
    text = " ".join(shown.words)
    for part in ("slow", "trn3", "nki", "80.5 us", "1970-01-0", "deep/er/two", "3 runs of 3"):
        assert part in text
    assert "run/deep/er/two/report.html" in shown.values("href")


def test_runs_are_compared_with_the_first(server: RunServer) -> None:
    shown = page(server, "compare?run=one&run=deep%2Fer%2Ftwo")
    assert shown.panes == ["runs", "profile", "engines", "lines"]
    for part in ("-60.5 us", "-75.2 %", "tensor busy_us", "k.py:7 k critical_us", "another"):
        assert part in shown.words
    assert "fast in deep/er/two is the fastest, 20 us; the slowest takes 4.03 times as long." in (
        shown.words
    )
    assert [run["figures"]["latency_us"] for run in shown.json("trn3-summary")["runs"]] == [
        80.5,
        20,
    ]
    links = {"run/one/report.html", "run/deep/er/two/report.html"}
    assert links <= set(shown.values("href"))
    [base] = [link for link in shown.values("href") if "compare?" in str(link)]
    assert page(server, str(base)).titles == ["fast in deep/er/two and 1 other · trn3 report"]


def test_what_others_wrote_is_text(server: RunServer) -> None:
    """Names of folders and kernels lead somewhere, and act nowhere."""
    place = quote(os.fsencode(NASTY))
    for path in ("", f"compare?run=one&run={quote(place)}"):
        content = ask(server, path)[1].decode()
        shown = Page(content)
        assert "b" not in {tag for tag, *_ in shown.attributes}
        assert not [name for _, name, _ in shown.attributes if name.startswith("on")]
        assert not {"\x1b", "\u202e"} & set(content)
        assert content.lower().count("</script") == 3
        assert f"run/{place}/report.html" in shown.values("href")
    assert ask(server, f"run/{place}/report.html")[1] == b"<p>a report</p>"


def test_files_act_for_themselves_alone(server: RunServer) -> None:
    """A report that somebody else made can read no other one."""
    status, content, headers = ask(server, "run/one/report.html")
    assert (status, content) == (200, b"<p>a report</p>")
    assert headers["Content-Security-Policy"].startswith(
        "sandbox allow-scripts; default-src 'none'"
    )
    for name in ("X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cache-Control"):
        assert headers[name] in ("nosniff", "no-referrer", "DENY", "no-store")
    status, content, headers = ask(server, "run/one/report.html", method="HEAD")
    assert (status, content, headers["Content-Length"]) == (200, b"", "15")


@pytest.mark.parametrize("path", ["/", "/x/", "/favicon.ico", "/x{token}/", "/{token}x/", "/%74/"])
def test_without_the_token_nothing_is_shown(server: RunServer, path: str) -> None:
    status, content, _ = ask(server, path.format(token=server.token), whole=True)
    assert status == 403
    assert server.token.encode() not in content
    assert ask(server, f"http://127.0.0.1:{server.port}/{server.token}/", whole=True)[0] == 403


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:{port}", "127.0.0.1", "[::1]:{port}"]
)
def test_other_names_of_this_machine_are_refused(server: RunServer, host: str) -> None:
    """As pages elsewhere have whose names were made to lead here."""
    assert ask(server, "", host=host.format(port=server.port))[0] == 403
    assert ask(server, "", host=f"localhost:{server.port}")[0] == 200


def test_two_hosts_are_refused(server: RunServer) -> None:
    request = (
        f"GET /{server.token}/ HTTP/1.1\r\nHost: localhost:{server.port}\r\nHost: evil\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request.encode())
        assert b" 403 " in connection.makefile("rb").readline()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "MOVE"])
def test_all_but_reading_is_refused(server: RunServer, method: str) -> None:
    status, _, headers = ask(server, "", method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "run/../secret/profile.json", "run/%2e%2e/secret/profile.json",
        "run/%2E%2E%2Fsecret/profile.json", "run/..%2fsecret%2fprofile.json",
        "run/%252e%252e/secret/profile.json", "run/one/../../secret/profile.json",
        "run/./one/profile.json", "run//one/profile.json", "run/one%2fprofile.json",
        "run/link/profile.json", "run/linked/profile.json", "run/one/notes.txt",
        "run/one/profile.json%00.html", "run/one/", "run/one", "run/", "run", "other",
        "run/{absolute}/profile.json", "run/one/profile.json/", "compare/", "..",
        "run/pipe/profile.json", "compare?run=..%2Fsecret&run=one", "compare?run=link&run=one",
        "compare?run=nothing&run=one",
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_is_there(server: RunServer, folder: Path, path: str) -> None:
    secret = folder.parent / "secret"
    save(secret, {"figures": figures("secret", 1.0)})
    (folder / "link").symlink_to(secret)
    (folder / "linked").mkdir()
    (folder / "linked/profile.json").symlink_to(secret / "profile.json")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe/profile.json")
    (folder / "one/notes.txt").write_text("mine")
    status, content, _ = ask(server, path.format(absolute=quote(str(secret), safe="")))
    assert status == 404
    assert b"secret" not in content
    assert "secret" not in ask(server, "")[1].decode()


def test_fewer_than_two_are_not_compared(server: RunServer, folder: Path) -> None:
    save(folder / "broken", {"figures": {"latency_us": "fast"}})
    assert ask(server, "compare")[0] == 400
    assert ask(server, "compare?run=one&run=one")[0] == 400
    status, content, _ = ask(server, "compare?run=one&run=broken")
    assert (status, b"latency_us is 'fast', must be a number" in content) == (400, True)
    assert "latency_us is 'fast'" in " ".join(page(server).words)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"figures": {"latency_us": NaN}}', "latency_us is nan"),
        ('{"figures": {"latency_us": 1e999}}', "latency_us is inf"),
        (f'{{"figures": {{"latency_us": 1{"0" * 400}}}}}', "must be a number"),
        ('{"figures": {"latency_us": 1, "mfu": -Infinity}}', "not JSON compliant"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no figures"),
        ("", "is not JSON"),
    ],
)
def test_what_is_no_profile_is_listed_with_the_reason(
    server: RunServer, folder: Path, text: str, problem: str
) -> None:
    (folder / "broken").mkdir()
    (folder / "broken/profile.json").write_text(text)
    shown = page(server)
    assert any(problem in word for word in shown.words)
    assert ask(server, "compare?run=one&run=broken")[0] == 400


def test_strange_figures_are_shown_as_they_are(server: RunServer, folder: Path) -> None:
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"deeper": deep}
    strange = {"arch": [1], "instructions": 10**400, "dma_bytes": 10**400, "latency_us": -5}
    strange |= {"engines": [3, {"busy_us": "long"}], "lines": {"a": 1}, "compile": 7, "deep": deep}
    save(folder / "strange", {"figures": strange})
    assert "strange" in page(server).words
    assert "-5 us" in page(server, "compare?run=strange&run=one").words


def test_new_runs_and_changed_ones_are_seen(server: RunServer, folder: Path) -> None:
    assert len(page(server).json("trn3-summary")["runs"]) == 3
    (folder / "new").mkdir()
    by_hand().to_json(folder / "new/profile.json")
    assert page(server).json("trn3-summary")["runs"][0]["folder"] == "new"
    (folder / "one/profile.json").write_text(json.dumps({"figures": figures("slow", 7.25)}))
    listed = {run["folder"]: run for run in page(server).json("trn3-summary")["runs"]}
    assert listed["one"]["latency_us"] == 7.25
    (folder / "deep/er/two/profile.json").unlink()
    listed = {run["folder"]: run for run in page(server).json("trn3-summary")["runs"]}
    assert listed["deep/er/two"]["problem"] == "there is no profile.json"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_command_says_where_and_ends(
    spawn: Callable[..., subprocess.Popen[str]], folder: Path, number: signal.Signals, code: int
) -> None:
    process = spawn("view", folder, "--no-browser")
    assert process.stdout is not None
    url = urlsplit(process.stdout.readline().strip())
    assert url.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
    connection.request("GET", url.path)
    assert connection.getresponse().status == 200
    connection.close()
    process.send_signal(number)
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, "")
    assert error.count("\n") == 1
    assert url.path.strip("/") not in error


def test_what_cannot_be_served_is_refused(refused: Callable[..., str], folder: Path) -> None:
    assert "No such file" in refused("view", folder / "nothing")
    assert "Not a directory" in refused("view", folder / "one/profile.json")
    assert "holds no run" in refused("view", folder / "empty")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("view", folder, "--no-browser", "--port", port) == (
            f"--port {port}: Address already in use"
        )


def test_a_folder_that_is_a_run_is_listed(tmp_path: Path) -> None:
    save(tmp_path / "run", {"figures": figures("alone", 1.0)})
    (tmp_path / "run/.hidden").mkdir()
    (tmp_path / "run/.hidden/profile.json").write_text("{}")
    runs = RunFolder(tmp_path / "run")
    assert [run.place for run in runs.runs()] == [""]
    with RunServer(runs) as server:
        assert server.url.endswith(f"/{server.token}/")
    with runs.open("", "report.html") as file:
        assert file.read() == b"<p>a report</p>"

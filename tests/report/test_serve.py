"""`jatpo serve`: what it answers and refuses, an episode by hand, and both pages in a real Chromium."""

import http.client
import json
import socket
import struct
import threading

import numpy as np
import pytest

import tiny_domain
from browser import NEEDED, started
from jatpo.errors import JatpoError
from jatpo.evaluate.solved import SolveOptions
from jatpo.report import local_page
from jatpo.report.local_games import LocalGames
from jatpo.report.local_server import LocalServer


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, tiny_domain.registered() as name:
        tiny_domain.stand_in(patch)
        games = LocalGames([name, "abandoned-power-plant"], "as_run", SolveOptions())
        with LocalServer(0, list(games.names), ["atpo", "random"], games.show, games) as found:
            thread = threading.Thread(target=found.serve_forever, daemon=True)
            thread.start()
            yield found
            found.shutdown()


@pytest.fixture
def ask(server):
    def asking(method, path, body=None, host=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**headers, **({"Host": host} if host else {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    return asking


def post(ask, path, **fields):
    status, _, text = ask("POST", path, json.dumps(fields), Content_Type="application/json")
    return status, json.loads(text)


def test_it_listens_on_the_loopback_address_and_knows_its_host(server, ask):
    assert server.server_address[0] == "127.0.0.1"
    assert ask("GET", "/")[0] == 200
    assert ask("GET", "/", host=f"localhost:{server.server_address[1]}")[0] == 200
    for host in ("evil.example", "127.0.0.1", "localhost:1", f"evil.example:{server.server_address[1]}"):
        for method in ("GET", "POST"):
            assert ask(method, "/", host=host)[0] == 421


def test_a_browser_that_goes_away_and_a_full_disk_are_no_tracebacks(capfd):
    def show(fields):
        if fields.get("disk"):
            raise OSError(28, "No space left on device", "solutions")
        return "x" * 20_000_000

    with LocalServer(0, ["a"], ["atpo"], show, None) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        host = f"127.0.0.1:{found.server_address[1]}"
        for _ in range(2):
            gone = socket.create_connection(found.server_address)
            gone.sendall(f"GET /watch HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.recv(10)
            gone.close()
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request("GET", "/watch?disk=full")
        answer = connection.getresponse()
        assert answer.status == 400 and b"No space left on device" in answer.read()
        connection.close()
        found.shutdown()
    assert "Traceback" not in capfd.readouterr().err


def test_every_answer_forbids_what_is_not_from_here(ask):
    for path, kind in {"/": "text/html", "/none": "text/html", **local_page.ASSETS}.items():
        status, headers, _ = ask("GET", path)
        assert status == (404 if path == "/none" else 200)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Content-Type"].startswith(kind)
    assert ask("GET", "/../pyproject.toml")[0] == 404


def test_text_from_the_address_is_escaped(ask):
    bad = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
    for path in (
        f"/play?library={bad}&seed={bad}",
        f"/watch?library={bad}",
        f"/watch?library=three-doors&seed={bad}",
    ):
        assert "<script>alert" not in ask("GET", path)[2]
    status, _, text = ask("GET", "/watch?library=/etc/passwd")
    assert status == 400 and "no library of this page" in text


def test_moves_come_from_the_page_alone(server, ask):
    body = json.dumps({"library": "three-doors"})
    assert ask("POST", "/play/new", body)[0] == 403
    assert ask("POST", "/play/new", body, Content_Type="text/plain")[0] == 403
    json_type = {"Content_Type": "application/json"}
    assert ask("POST", "/play/new", body, Origin="http://evil.example", **json_type)[0] == 403
    assert ask("POST", "/play/new", "[1", **json_type)[0] == 400
    assert ask("POST", "/play/new", "[1]", **json_type)[0] == 400
    assert ask("POST", "/play/new", "x" * 20_000, **json_type)[0] == 400
    assert ask("POST", "/play/new", body, Origin=server.address.rstrip("/"), **json_type)[0] == 200


def test_an_episode_by_hand_follows_the_filter(ask):
    status, found = post(ask, "/play/new", library="three-doors", seed=4)
    assert status == 200 and found["time"] == 0 and found["truth"] is None
    assert sum(found["advice"]) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(found["posterior"], 1 / 3, atol=1e-3)
    total = 0.0
    while not found["over"]:
        status, found = post(ask, "/play/act", game=found["game"], action=3, reveal=found["time"] == 1)
        total += found["reward"]
        assert status == 200 and found["return"] == pytest.approx(total)
        assert (found["truth"] is not None) == (found["time"] == 2 or found["over"])
    assert found["time"] == tiny_domain.HORIZON
    status, error = post(ask, "/play/act", game=found["game"], action=3)
    assert status == 400 and "has ended" in error["error"]
    status, again = post(ask, "/play/new", library="three-doors", seed=4)
    assert again["game"] != found["game"] and again["advice"]


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/play/new", {"library": "nowhere"}, "no library of this page"),
        ("/play/new", {"library": "three-doors", "seed": -1}, "seed must be a whole number"),
        ("/play/act", {"game": "none", "action": 0}, "not known any more"),
    ],
)
def test_bad_moves_are_sentences(ask, path, fields, words):
    status, found = post(ask, path, **fields)
    assert status == 400 and words in found["error"]
    game = post(ask, "/play/new", library="three-doors")[1]["game"]
    status, found = post(ask, "/play/act", game=game, action=99)
    assert status == 400 and "no action has the number 99" in found["error"]


def test_a_port_that_is_taken_is_an_error(server):
    games = LocalGames([], "as_run", SolveOptions())
    with pytest.raises(OSError, match="in use"):
        LocalServer(server.server_address[1], [], [], games.show, games)
    with pytest.raises(JatpoError, match="no library of this page"):
        games.new({"library": "x"})


@NEEDED
def test_both_pages_in_a_browser(server, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    driver = started(tmp_path)
    try:

        def find(selector):
            return driver.find_elements(By.CSS_SELECTOR, selector)

        def wait(condition):
            WebDriverWait(driver, 120).until(lambda _: condition())

        driver.get(server.address)
        Select(find("form[action='/play'] select")[0]).select_by_value("three-doors")
        find("form[action='/play'] button")[0].click()
        wait(lambda: len(find("#actions button")) == 4)
        assert len(find("#posterior li")) == 3 and not find(".true")
        find("#actions button")[3].click()
        wait(lambda: "Step 1" in find("#message")[0].text)
        find("#reveal")[0].click()
        wait(lambda: len(find("#posterior .true")) == 1)
        assert find("#truth")[0].is_displayed()
        find("#again")[0].click()
        wait(lambda: "Step 0" in find("#message")[0].text)
        driver.get(server.address)
        find("form[action='/watch'] button")[0].click()
        wait(lambda: find(".replay-counter"))
        find(".do-next")[0].click()
        assert find(".replay-counter")[0].text.startswith("1")
        assert driver.get_log("browser") == []
    finally:
        driver.quit()

"""The report in a real headless Chromium, opened from disk: no errors, replays, numbers, both themes, two widths.

Skipped where there is no browser. Nothing is installed or fetched: the driver is the one beside the browser.
"""

import json
from urllib.parse import unquote

import pytest

import tiny_domain
from browser import NEEDED, started
from jatpo.report import page
from report_rows import made

PAPERS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
TEXTS = (
    "p, td, th, small, a, dt, dd, li, h1, h2, h3, figcaption, span.key, code, .replay label, .replay output"
)
CONTRASTS = """
const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const numbers = c => c.match(/[\\d.]+/g).map(Number).map(linear);
const light = c => { const [r, g, b] = numbers(c); return .2126*r + .7152*g + .0722*b; };
const paper = light(getComputedStyle(document.body).backgroundColor);
const found = [];
for (const node of document.querySelectorAll(arguments[0])) {
  if (!node.checkVisibility() || !node.textContent.trim() || node.closest("button")) continue;
  const ink = light(getComputedStyle(node).color);
  found.push([(Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05), node.textContent.trim().slice(0, 40)]);
}
for (const node of document.querySelectorAll("figure[id^=figure-] svg text")) {
  const ink = light(getComputedStyle(node).fill);
  found.push([(Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05), node.textContent]);
}
return found;
"""

pytestmark = NEEDED


@pytest.fixture(scope="module")
def episode():
    """An episode in a maze, with QMDP's vectors in place of solved ones, that moves the agent."""
    from jatpo.report.episode import record

    with pytest.MonkeyPatch.context() as patch:
        tiny_domain.stand_in(patch)
        return record("ntu", seed=1)


@pytest.fixture(scope="module")
def report(tmp_path_factory, episode):
    """The address of a report."""
    results = made(perseus={"compatible": False}, bopa={"mean": None, "reason": "it cannot"})
    return page.write(tmp_path_factory.mktemp("report"), results, [episode]).as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    driver = started(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def open_page(chromium, report):
    """Opens the report in a theme and at a width; the driver. At the end, nothing may be in the console."""

    def opening(theme="light", width=1200):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chromium.get(report)
        return chromium

    yield opening
    assert chromium.get_log("browser") == []


def find(driver, selector):
    from selenium.webdriver.common.by import By

    return driver.find_elements(By.CSS_SELECTOR, selector)


def agent_at(driver):
    """Where the drawn agent stands in the first map."""
    return driver.execute_script(
        "return document.querySelector('.replay-maps svg .replay-people > g').style.transform"
    )


def test_the_tables_hold_the_numbers_of_the_json(open_page):
    driver = open_page()
    rows = json.loads(find(driver, "#results")[0].get_property("textContent"))["summary"]
    cells = find(driver, "#table-returns tbody td")
    assert len(cells) == len(rows) == 6
    for row, cell in zip(rows, cells, strict=True):
        if row["mean"] is None:
            assert cell.text == "N.A."
            continue
        lines = cell.text.split("\n")
        assert float(lines[0]) == row["mean"]
        assert lines[1] == f"{row['low']:.2f} to {row['high']:.2f}"
        assert lines[2].startswith(f"{row['published_mean']:.2f} ± {row['published_std']:.2f}")
        assert ("✗" in lines[2]) == (row["agent"] == "perseus")


def test_a_download_is_the_table(open_page):
    driver = open_page()
    (link,) = find(driver, '#returns > a.csv[download="returns.csv"]')
    kind, _, text = link.get_attribute("href").partition(",")  # the page's policy allows no fetch
    assert kind == "data:text/csv;charset=utf-8"
    text = unquote(text)
    head, *lines = text.splitlines()
    assert head.startswith("domain,rules,agent,mean")
    assert len(lines) == 6


def test_the_replay_steps_and_plays(open_page, episode):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    driver = open_page()
    (counter,), (onward,) = find(driver, ".replay-counter"), find(driver, ".do-next")
    last = episode.num_steps
    assert counter.text == f"0 / {last}"
    onward.click()
    assert counter.text == f"1 / {last}"
    assert episode.did(1) in find(driver, ".replay-facts")[0].text
    find(driver, ".replay input[type=range]")[0].send_keys(Keys.ARROW_LEFT)
    assert counter.text == f"0 / {last}"
    find(driver, ".do-play")[0].click()
    WebDriverWait(driver, 10).until(lambda _: counter.text == f"{last} / {last}")


def test_the_slider_moves_the_agent(open_page, episode):
    driver = open_page()
    places = []
    for time in range(episode.num_steps):
        driver.execute_script(
            "const slider = document.querySelector('.replay input[type=range]'); slider.value = arguments[0];"
            "slider.dispatchEvent(new Event('input'))",
            time,
        )
        places.append(agent_at(driver))
    cells = [episode.state_name(time).split()[1] for time in range(episode.num_steps)]
    assert len(set(cells)) > 1
    assert len(set(places)) == len(set(cells))
    assert all((places[i] == places[i + 1]) == (cells[i] == cells[i + 1]) for i in range(len(cells) - 1))


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_legible(open_page, theme, width):
    driver = open_page(theme, width)
    body = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert body == PAPERS[theme]
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    found = driver.execute_script(CONTRASTS, TEXTS)
    assert len(found) > 150
    assert [pair for pair in found if pair[0] < 4.5] == []
    small = driver.execute_script(
        "const texts = [...document.querySelectorAll('figure[id^=figure-] svg text')];"
        "return Math.min(...texts.map(node => node.getBoundingClientRect().height))"
    )
    assert small >= 9


def test_printing_shows_all_of_it(open_page):
    driver = open_page()
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not find(driver, "nav")[0].is_displayed()
    assert find(driver, "#table-returns")[0].is_displayed()
    assert len(driver.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 10_000
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

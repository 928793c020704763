"""The page in a browser."""

import re
import shutil

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from pages import HOSTILE, ONES, chain, model, page_of_model, power
from playwright.sync_api import expect, sync_playwright

import jaxprgen
from jaxprgen import inspect, texts
from jaxprgen._jax import ClosedJaxpr

pytestmark = pytest.mark.deep
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of the browsers {', '.join(BROWSERS)} is installed")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open a page; console messages, requests and dialogs are errors."""
    noise = []
    context = browser.new_context(viewport={"width": 1400, "height": 900})

    def show(page):
        path = tmp_path / "page.html"
        path.write_text(page)
        shown = context.new_page()
        shown.set_default_timeout(10_000)
        shown.on("console", lambda message: noise.append(message.text))
        shown.on("pageerror", lambda error: noise.append(str(error)))
        shown.on("dialog", lambda dialog: (noise.append("a dialog"), dialog.dismiss()))
        shown.on("request", lambda r: noise.append(r.url) if r.url != path.as_uri() else None)
        shown.goto(path.as_uri())
        return shown

    show.noise = noise
    yield show
    context.close()
    assert noise == []


def binder(page, name):
    return page.locator(".program b").get_by_role("link", name=name, exact=True).first


def lit(page, side, kind="over-lit"):
    """The highlighted rows and names on one side, as text."""
    rows = page.locator(f".{side} p.{kind}").all_inner_texts()
    names = page.locator(f".{side} a.{kind}").all_inner_texts()
    return [" ".join(row.split()) for row in rows], names


def test_hovering_over_a_name_highlights_its_uses_and_its_node(show):
    page = show(page_of_model())
    binder(page, "eta").hover()
    rows, names = lit(page, "program")
    assert len(rows) == 1 and "eta:f64[4] = dot_general" in rows[0]
    text = inspect.pretty(jaxprgen.compile(*model()), np.ones((4, 3)), ONES, shapes=False)
    assert names == ["eta"] * len(re.findall(r"\beta\b(?!\.)", text))
    rows, names = lit(page, "graph")
    assert len(rows) == 1 and rows[0].startswith("emitted eta:float64[4] = dot X beta")
    assert names == ["eta"] * 4  # Made once; read by softplus, by the difference and by the slice.
    footer = page.locator("footer").inner_text()
    assert re.search(r"pages\.py:\d+ +eta = at\.dot\(X, beta\)$", footer)
    page.locator("h1").hover()
    assert lit(page, "program") == ([], [])


def test_hovering_over_an_input_highlights_its_binder(show):
    page = show(page_of_model())
    binder(page, "beta").hover()
    (row,), names = lit(page, "graph")
    assert row.startswith("input beta:float64[3] pages.py:")
    assert row.endswith('X, beta = at.dmatrix("X"), at.dvector("beta")')
    assert names == ["beta", "beta"]
    assert lit(page, "program") == ([], ["beta", "beta"])


def test_hovering_over_a_node_highlights_its_equations(show):
    page = show(page_of_model())
    page.locator(".graph p", has_text="softplus").first.hover()
    rows, _ = lit(page, "program")
    assert len(rows) == 9
    assert re.match(r"\d+ eta\.\d", rows[0])
    ((row,), _), near = lit(page, "graph"), lit(page, "graph", "over-near")
    assert "softplus" in row
    assert len(near[0]) == 1 and "= dot X beta" in near[0][0]


def test_hovering_over_an_equation_highlights_its_node(show):
    page = show(page_of_model())
    page.locator(".program p", has_text="= log1p").locator("strong").hover()
    assert "softplus" in lit(page, "graph")[0][0]


def test_keyboard_focus_highlights_like_the_pointer(show):
    page = show(page_of_model())
    binder(page, "eta").focus()
    with_focus = lit(page, "program"), lit(page, "graph")
    page.locator("h1").hover()
    binder(page, "eta").hover()
    assert with_focus == (lit(page, "program"), lit(page, "graph"))
    page.keyboard.press("Tab")
    assert lit(page, "program")[1][0] == "X"
    page.keyboard.press("Enter")
    assert lit(page, "program", "pinned-lit")[1] == ["X", "X"]
    page.keyboard.press("Escape")
    assert lit(page, "program", "pinned-lit") == ([], [])


def test_a_click_pins_the_highlight_and_scrolls_the_other_side(show):
    page = show(inspect.html(chain(400), ONES, ONES))
    last = page.locator(".program b a").last
    row = page.locator(".graph p[id^=n]").last
    assert row.bounding_box()["y"] > 900
    last.click()
    page.locator("h1").hover()
    assert "pinned-lit" in last.get_attribute("class")
    assert 0 < row.bounding_box()["y"] < 900
    assert 0 < last.bounding_box()["y"] < 900
    first = page.locator(".program b a").first
    row.locator("a").first.click()  # The same variable: lets go.
    assert page.locator(".pinned-lit").count() == 0
    page.locator(".graph p.leaf a").first.click()
    assert 0 < first.bounding_box()["y"] < 900


def test_a_loop_can_be_folded(show):
    f, *args = power()
    page = show(inspect.html(f, *args))
    inner = page.locator(".program details", has_text="body_jaxpr").locator("p").first
    assert inner.is_visible()
    page.get_by_text("body_jaxpr").click()
    assert not inner.is_visible()
    assert page.locator(".program details", has_text="cond_jaxpr").locator("p").first.is_visible()


def test_a_page_without_a_graph_works(show):
    f = jaxprgen.compile(*model())
    page = show(inspect.html(jax.grad(lambda *args: f(*args)[0]), np.ones((4, 3)), ONES))
    name = page.locator(".program details b a", has_text=re.compile("^eta")).first
    name.hover()
    rows, names = lit(page, "program")
    assert len(rows) == 1 and len(names) > 1
    assert "pages.py:" in page.locator("footer").inner_text()


@pytest.mark.parametrize("name", HOSTILE[:-2])
def test_hostile_names_are_text(show, name):
    page = show(page_of_model(name, function=name))
    assert page.locator("img, iframe, main script, [onerror], [onfocus]").count() == 0
    assert page.evaluate("document.scripts.length") == 2
    assert texts.visible(name) in page.locator(".graph b a").all_text_contents()
    for link in page.locator(".graph b a").all():
        link.hover()


def test_a_hostile_source_line_is_text(show, tmp_path):
    path = tmp_path / "<img src=x onerror=alert(1)>.py"
    path.write_text("y = x * 2  # </script><script>alert(1)</script><!--\n")
    scope = {"x": at.dvector("x")}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    page = show(inspect.html(jaxprgen.compile([scope["x"]], scope["y"]), ONES))
    page.locator(".program p[data-s] b a").hover()
    footer = page.locator("footer").inner_text()
    assert footer.endswith("y = x * 2 # </script><script>alert(1)</script><!--")
    assert "<img src=x" in footer


def test_the_policy_blocks_injected_scripts(show):
    page = show(page_of_model())
    intruder = "<img src=http://nowhere.test/ onerror=hit=1>"
    with page.expect_event("requestfailed") as failed:
        page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", intruder)
    assert failed.value.failure == "csp"
    assert page.evaluate("window.hit") is None
    assert any("inline event handler violates" in said for said in show.noise)
    show.noise.clear()


def test_changes_are_a_tab(show):
    observation = jaxprgen.compile(*model()).observe(np.ones((4, 3)), ONES)
    jaxpr = observation.closed_jaxpr.jaxpr
    before = ClosedJaxpr(jaxpr.replace(eqns=jaxpr.eqns[:-1]), ())
    page = show(inspect.html(observation, before=before))
    program, changes = page.locator(".program"), page.locator("#changes pre")
    assert program.is_visible() and not changes.is_visible()
    page.get_by_label("Changes").check()
    assert changes.is_visible() and not program.is_visible()
    assert [line[:3] for line in changes.locator("del, ins").all_inner_texts()[:2]] == [
        "---",
        "+++",
    ]
    assert changes.locator("ins").count() == 2


def test_a_check_lists_the_nodes_that_cannot_be_jitted(show):
    x, n = at.dvector("x"), at.lscalar("n")
    found = jaxprgen.check([x, n], [at.nonzero(x)[0], at.arange(n)])
    page = show(inspect.html(jaxprgen.compile([x], x + 1), ONES, check=found))
    page.get_by_label("Check").check()
    rows = [" ".join(row.split()) for row in page.locator("#check p").all_inner_texts()]
    assert any(row.startswith("static n input") for row in rows)
    assert any(row.startswith("static Nonzero") for row in rows)


def test_a_page_of_two_thousand_equations_works(show):
    page = show(inspect.html(chain(1600), ONES, ONES))
    assert page.locator(".program p[id^=e]").count() == 2000
    binder(page, "y").hover()
    _, names = lit(page, "program")
    assert len(names) == 401
    page.locator("#search").fill("no such text")
    rows = page.locator(".program p:not(.head), .graph p").count()
    assert page.locator("p.out").count() == rows > 4000
    page.keyboard.press("Escape")  # Shows the rows a few hundred at a time.
    page.locator("p.out").first.wait_for(state="detached")


# --- Search, filters and folding ------------------------------------------------------------


def visible(page, rows):
    """The texts of the visible ones among some rows."""
    found = [row for row in page.locator(rows).all() if row.is_visible()]
    return [" ".join(row.inner_text().split()) for row in found]


def test_a_search_shows_the_rows_that_contain_it(show):
    page = show(page_of_model())
    every = len(visible(page, ".program p[id]"))
    page.keyboard.press("/")
    page.keyboard.type("= LOG1P")
    (row,) = visible(page, ".program p[id]")
    assert "log1p" in row
    assert page.locator("#found").inner_text().startswith("1 of ")
    page.keyboard.press("Escape")
    assert len(visible(page, ".program p[id]")) == every
    page.locator("#search").fill("eta = at.dot(x, beta)")  # The text of a line.
    assert any("dot_general" in row for row in visible(page, ".program p[id]"))
    assert not any("log1p" in row for row in visible(page, ".program p[id]"))


def test_the_legend_filters_the_nodes(show):
    page = show(inspect.html(chain(8), ONES, ONES))
    emitted = visible(page, ".graph p.emitted")
    assert emitted and not visible(page, ".graph p.folded")
    folded = page.locator("[data-how=folded]")
    assert folded.get_attribute("aria-pressed") == "false"
    folded.click()
    assert folded.get_attribute("aria-pressed") == "true"
    assert len(visible(page, ".graph p.folded")) == page.locator(".graph p.folded").count() > 0
    page.locator("[data-how=emitted]").click()
    assert not visible(page, ".graph p.emitted")
    assert visible(page, ".graph p.folded")


def test_rows_of_a_line_can_be_grouped(show):
    page = show(page_of_model())
    before = visible(page, ".program p[id]")
    page.get_by_text("Group by line").click()
    summaries = visible(page, ".program details.line > summary")
    assert any(re.search(r"^\d+ rows from .*pages\.py:\d+ return \[X", s) for s in summaries)
    assert len(visible(page, ".program p[id]")) < len(before)
    page.locator("#search").fill("= log1p")  # Unfolds its group.
    assert len(visible(page, ".program p[id]")) == 1
    page.keyboard.press("Escape")
    page.get_by_text("Group by line").click()
    assert visible(page, ".program p[id]") == before


def scattered():
    """A program with a loop between the equations of one line."""
    x = at.dvector("x")

    def bend(v):
        return at.tanh(v) * v

    total = at.sum(bend(x))
    steps, _ = aesara.scan(lambda h: at.sin(h) * total, outputs_info=[total], n_steps=3)
    return inspect.html(jaxprgen.compile([x], bend(steps)), ONES)


def test_a_group_gathers_all_rows_of_its_line_in_order(show):
    page = show(scattered())
    rows = ".program > p[id], .program > details.line > p[id]"
    before = visible(page, rows)
    page.get_by_text("Group by line").click()
    groups = page.locator(".program > details.line")
    sources = groups.locator("> summary").all_inner_texts()
    assert len({source.partition(" · ")[2] for source in sources}) == len(sources)
    first = groups.first
    number = [int(row.get_attribute("id")[1:]) for row in first.locator("> p").all()]
    assert number == sorted(number) and number[-1] - number[0] > len(number) - 1
    title = f"{len(number)} rows from {number[0]} to {number[-1]} · "
    assert first.locator("> summary").inner_text().startswith(title)
    loop = page.locator(".program strong", has_text=re.compile("^scan$")).locator("xpath=../..")
    assert loop.evaluate("row => row.nextElementSibling.matches('details:not(.line)')")
    page.locator("#search").fill("reduce_sum")
    assert groups.count() > len(visible(page, ".program > details.line > summary"))
    page.keyboard.press("Escape")
    page.get_by_text("Group by line").click()
    assert visible(page, rows) == before


def test_loops_fold_at_once_and_a_search_unfolds_them(show):
    f, *args = power()
    page = show(inspect.html(f, *args))
    inner = page.locator(".program details p[id]")
    page.get_by_text("Fold loops").click()
    assert not any(row.is_visible() for row in inner.all())
    page.locator("#search").fill("mul")
    assert any(row.is_visible() for row in inner.all())


def test_lines_are_listed_by_cost_and_lead_to_their_equations(show):
    page = show(page_of_model())
    page.get_by_label("Lines").check()
    counts = [int(row.split()[0]) for row in visible(page, ".lines p[data-equations]")]
    assert counts == sorted(counts, reverse=True)
    page.get_by_role("button", name="bytes", exact=True).click()
    sizes = [int(p.get_attribute("data-bytes")) for p in page.locator(".lines p[data-bytes]").all()]
    assert sizes == sorted(sizes, reverse=True)
    page.locator(".lines button[data-line]", has_text="eta = at.dot").click()
    rows = visible(page, ".program p[id]")
    assert rows and all("eta" in row for row in rows) and len(rows) < 9


def test_boxes_of_the_picture_lead_to_equations(show):
    page = show(page_of_model())
    page.get_by_label("Lines").check()
    assert page.locator(".picture g.input").count() == 2
    box = page.locator(".picture g[data-line]", has_text="eta = at.dot")
    box.focus()
    page.keyboard.press("Enter")
    assert page.locator(".program").is_visible()
    assert "pages.py:" in page.locator("#search").input_value()


def test_the_picture_can_be_zoomed_and_moved(show):
    page = show(page_of_model())
    page.get_by_label("Lines").check()
    box = page.locator(".picture g[data-line]", has_text="eta = at.dot")

    def middle():
        place = box.locator("rect").bounding_box()
        return place["x"] + place["width"] / 2, place["y"] + place["height"] / 2, place["width"]

    x, y, width = middle()
    page.mouse.move(x, y)
    svg = page.locator(".picture svg")
    whole = svg.get_attribute("viewBox")
    page.mouse.wheel(0, -300)
    expect(svg).not_to_have_attribute("viewBox", whole)
    assert middle() == pytest.approx((x, y, width * 1.002**300), abs=1)  # Around the pointer.
    page.mouse.down()
    page.mouse.move(x + 60, y + 30, steps=3)
    page.mouse.up()
    assert middle()[:2] == pytest.approx((x + 60, y + 30), abs=1)
    assert page.locator(".picture").is_visible()  # Moving is not a click on the box.
    place = svg.bounding_box()
    page.mouse.dblclick(place["x"] + 3, place["y"] + place["height"] - 3)
    assert middle() == pytest.approx((x, y, width), abs=1)
    box.click()
    assert page.locator(".program").is_visible()
    assert visible(page, ".program p[id]")


def test_alike_nodes_unfold_when_one_of_them_is_searched(show):
    v = at.dvector("v")
    bent = [at.sin(v[i]) for i in range(20)]
    bent[7].name = "seventh"
    page = show(inspect.html(jaxprgen.compile([v], sum(bent)), np.ones(20)))
    copies = page.locator(".graph details.copies")
    assert copies.count() > 1
    assert not any(each.get_attribute("open") is not None for each in copies.all())
    page.locator("#search").fill("seventh")
    expect(page.locator(".graph .copies[open] p:visible").first).to_contain_text("seventh")
    assert any("out" in each.get_attribute("class").split() for each in copies.all())

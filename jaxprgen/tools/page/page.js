"use strict";
// Links alone say which elements belong together: #v7 is a variable of the program, #g7 a variable
// of the graph, #e7 an equation, #n7 a node. They are indexed once, so that highlighting is a lookup.
const groups = new Map();
const sources = JSON.parse(document.getElementById("sources").textContent);
const footer = document.getElementById("source");

function add(key, element, name = "lit") {
  if (!element) return;
  if (!groups.has(key)) groups.set(key, new Map());
  const group = groups.get(key);
  if (group.get(element) !== "lit") group.set(element, name);
}

const targetOf = (link) => link.getAttribute("href").slice(1); // `link.hash` would parse a URL.
const keyOf = (link) => (link.dataset.v ? `v${link.dataset.v}` : targetOf(link));

for (const link of document.querySelectorAll("main a")) add(keyOf(link), link);
for (const row of document.querySelectorAll(".program p[id]")) {
  const node = document.getElementById(`n${row.dataset.n}`);
  for (const other of [row, node]) add(row.id, other);
  if (node) add(node.id, row);
  for (const binder of row.querySelectorAll("b a")) {
    add(row.id, binder);
    for (const other of [row, node]) add(keyOf(binder), other);
  }
}
for (const row of document.querySelectorAll(".graph p")) {
  add(row.id, row);
  for (const link of row.querySelectorAll("a")) {
    if (link.id) {
      add(keyOf(link), row, "near");
      if (row.classList.contains("leaf")) add(row.id, link), add(keyOf(link), row);
    } else if (targetOf(link).startsWith("g")) {
      add(row.id, document.getElementById(targetOf(link))?.closest("p"), "near");
    }
  }
}

// The highlighted key, by cause: "over" for the pointer or the focus, "pinned" for a click.
const shown = { over: null, pinned: null };

function show(why, key) {
  if (shown[why] === key) return;
  const mark = (on) => {
    for (const [element, name] of groups.get(shown[why]) ?? []) {
      element.classList.toggle(`${why}-${name}`, on);
    }
  };
  mark(false);
  shown[why] = key;
  mark(true);
}

function tell(element) {
  const row = element?.closest("p[data-s]");
  // Change the existing text node: replacing it would make the browser match `:has` again.
  if (row) footer.firstChild.data = sources[row.dataset.s];
}

function keyAt(element) {
  const link = element.closest("main a");
  return link ? keyOf(link) : element.closest("main p[id]")?.id ?? null;
}

// Show the line that created a name, not the one that uses it.
function point(element) {
  const key = keyAt(element);
  show("over", key);
  if (key) tell(document.getElementById(key) ?? element);
}

// Scroll each side to its first highlighted element, the clicked side only if it is not visible.
function pin(key, origin) {
  show("pinned", shown.pinned === key ? null : key);
  if (!shown.pinned) return;
  for (const side of document.querySelectorAll(".program, .graph")) {
    const lit = [...groups.get(key) ?? []]
      .filter(([element, name]) => name === "lit" && side.contains(element))
      .map(([element]) => element);
    const first = lit.find((element) => element.matches("p, b a")) ?? lit[0];
    if (!first) continue;
    unfold(first);
    first.scrollIntoView({ block: side.contains(origin) ? "nearest" : "center" });
  }
}

function unfold(element) {
  for (let at = element.closest("details"); at; at = at.parentElement.closest("details")) {
    at.open = true;
  }
}

// --- Search: a row stays if its text, or that of its source line, contains the query -------------

const $ = (id) => document.getElementById(id);
const sides = [".program p:not(.head)", ".graph p"].map((side) => document.querySelectorAll(side));
const rows = []; // From the top, of both sides in turn.
for (let i = 0; sides.some((side) => i < side.length); i++) {
  for (const side of sides) if (side[i]) rows.push(side[i]);
}
const texts = rows.map((row) => `${row.textContent} ${sources[row.dataset.s] ?? ""}`.toLowerCase());

function search() {
  const query = $("search").value.toLowerCase();
  const matches = texts.map((text) => text.includes(query));
  const found = rows.filter((row, i) => matches[i]);
  rows.forEach((row, i) => matches[i] || row.classList.add("out"));
  $("found").textContent = query ? `${found.length} of ${rows.length}` : "";
  if (query && document.querySelector("details:not([open])")) found.forEach(unfold);
  const places = new Set(found.map((row) => row.parentElement));
  for (const place of places) if (place.parentElement) places.add(place.parentElement);
  for (const line of document.querySelectorAll("details.line, details.copies")) {
    line.classList.toggle("out", !places.has(line));
  }
  reveal(found.filter((row) => row.classList.contains("out")));
}

// Show the topmost rows at once, and the others in later frames: thousands take a while to lay out.
let searches = 0;
function reveal(hidden, own = ++searches) {
  if (own !== searches) return; // A later search has begun.
  for (const row of hidden.splice(0, 200)) row.classList.remove("out");
  if (hidden.length) requestAnimationFrame(() => setTimeout(reveal, 0, hidden, own));
}

function searchLine(line) {
  $("search").value = `${sources[line].split("  ")[0]} `;
  search();
  document.querySelector('input[value="program"]').click();
}

// --- Folding: the rows of a source line, and programs inside equations ---------------------------

let ungrouped = []; // The columns and the inner programs, with their rows in the order of computing.

// Gather the rows of each line at the place of the first. An inner program stays with its equation,
// and rows without a line, such as those of inputs, stay alone.
function group(on) {
  if (!on) rows.forEach((row) => row.classList.add("out")); // The search below shows them in turn.
  for (const [place, children] of ungrouped.splice(0)) place.replaceChildren(...children);
  const places = document.querySelectorAll(".program, .graph, .program details");
  for (const place of on ? places : []) {
    const children = [...place.children];
    ungrouped.push([place, children]);
    place.replaceChildren(); // Rows are faster to move while they are not in the page.
    const lines = new Map();
    let key;
    for (const child of children) {
      if (!child.matches("details")) key = child.dataset.s ?? child;
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push(child);
    }
    place.replaceChildren(...[...lines.values()].flatMap(folded));
  }
  search();
}

function folded(elements) {
  const own = elements.filter((element) => element.matches("p"));
  if (own.length < 2) return elements;
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const [first, last] = [own[0], own.at(-1)].map((row) => row.id.match(/^e(\d+)$/)?.[1]);
  const numbers = first ? ` from ${first} to ${last}` : "";
  const kinds = new Set(own.map((row) => row.classList[0]));
  details.className = `line ${kinds.size > 1 ? "" : own[0].classList[0] ?? ""}`;
  summary.textContent = `${own.length} rows${numbers} · ${sources[own[0].dataset.s]}`;
  details.append(summary, ...elements);
  return details;
}

function fold(on) {
  for (const inner of document.querySelectorAll(".program details:not(.line)")) inner.open = !on;
}

// --- The picture: the wheel zooms, dragging moves it, and a double click shows all of it ---------

const picture = document.querySelector(".picture svg");
const whole = picture?.getAttribute("viewBox").split(" ").map(Number);
let grip = null; // Where the pointer was, if it holds the picture.

function view(...box) {
  picture.setAttribute("viewBox", box.join(" "));
}

// Show the picture from the top, not magnified, and as much of it as this scale allows.
function viewAll(smallest = 0) {
  const [, , width, height] = whole;
  const size = (all, own) => Math.max(own, Math.min(all, own / smallest));
  const w = size(width, picture.clientWidth);
  view((width - w) / 2, 0, w, size(height, picture.clientHeight));
}

function move(right, down) {
  const { x, y, width, height } = picture.viewBox.baseVal;
  const scale = picture.getScreenCTM().a;
  view(x - right / scale, y - down / scale, width, height);
}

function zoom(event) {
  event.preventDefault();
  const pointer = new DOMPoint(event.clientX, event.clientY);
  const at = pointer.matrixTransform(picture.getScreenCTM().inverse());
  const { x, y, width, height } = picture.viewBox.baseVal;
  const factor = 1.002 ** event.deltaY;
  view(at.x - (at.x - x) * factor, at.y - (at.y - y) * factor, width * factor, height * factor);
}

function drag(event) {
  if (!grip || !(event.buttons & 1)) return;
  const [right, down] = [event.clientX - grip.x, event.clientY - grip.y];
  if (Math.hypot(right, down) < 4 && !picture.hasPointerCapture(event.pointerId)) return;
  picture.setPointerCapture(event.pointerId); // The click that ends this is not one on a box.
  grip = { x: event.clientX, y: event.clientY };
  move(right, down);
}

// Move a box that has the focus into view.
function center(box) {
  const [outer, inner] = [picture, box].map((element) => element.getBoundingClientRect());
  const isInside = inner.left >= outer.left && inner.right <= outer.right
    && inner.top >= outer.top && inner.bottom <= outer.bottom;
  if (isInside) return;
  move(outer.left - inner.left + outer.width / 2, outer.top - inner.top + outer.height / 2);
}

if (picture) {
  new ResizeObserver((_, observer) => {
    if (picture.clientWidth) viewAll(0.7), observer.disconnect();
  }).observe(picture);
  picture.addEventListener("wheel", zoom, { passive: false });
  picture.addEventListener("pointerdown", ({ clientX: x, clientY: y }) => { grip = { x, y }; });
  picture.addEventListener("pointermove", drag);
  picture.addEventListener("dblclick", () => viewAll());
  picture.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible")) center(event.target);
  });
}

function sort(button) {
  const key = button.dataset.sort;
  const list = button.closest("article");
  for (const other of list.querySelectorAll("[data-sort]")) {
    other.setAttribute("aria-pressed", other === button);
  }
  const lines = [...list.querySelectorAll("p[data-equations]")];
  list.append(...lines.sort((a, b) => b.dataset[key] - a.dataset[key]));
}

// Return whether a button is pressed now.
function toggle(button) {
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", on);
  return on;
}

if ($("program")) {
  $("tools").hidden = false;
  $("fold").hidden = !document.querySelector(".program details");
  $("search").addEventListener("input", search);
  $("group").addEventListener("click", () => group(toggle($("group"))));
  $("fold").addEventListener("click", () => fold(toggle($("fold"))));
}

document.addEventListener("pointerover", (event) => point(event.target));
document.addEventListener("focusin", (event) => point(event.target));
document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (key === "/" && target !== $("search")) event.preventDefault(), $("search").focus();
  if (key === "Enter" && target.matches("g[data-line]")) searchLine(target.dataset.line);
  if (key !== "Escape") return;
  show("pinned", null), show("over", null);
  $("search").value = "", search();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-how], [data-line], [data-sort]");
  if (button?.dataset.how) {
    button.closest("article").classList.toggle(`no-${button.dataset.how}`, !toggle(button));
  } else if (button?.dataset.line) {
    return searchLine(button.dataset.line);
  } else if (button) {
    return sort(button);
  }
  const key = keyAt(event.target);
  if (!key || getSelection().type === "Range") return;
  if (event.target.closest("a")) event.preventDefault();
  pin(key, event.target);
});

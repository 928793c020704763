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
    first?.scrollIntoView({ block: side.contains(origin) ? "nearest" : "center" });
  }
}

document.addEventListener("pointerover", (event) => point(event.target));
document.addEventListener("focusin", (event) => point(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") show("pinned", null), show("over", null);
});
document.addEventListener("click", (event) => {
  const key = keyAt(event.target);
  if (!key || getSelection().type === "Range") return;
  if (event.target.closest("a")) event.preventDefault();
  pin(key, event.target);
});

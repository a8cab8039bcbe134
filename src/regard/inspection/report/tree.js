// A table whose first column is a tree: rows know their depth, a row's parts follow it. Arrow keys as in file trees.

/** Paths as people read them: `layers.2` is layers:3, for everything on the page is counted from 1. */
const counted = (path) => path.replace(/(^|\.)(\d+)(?=\.|$)/g, (_, dot, number) => `:${Number(number) + 1}`);

function compact(value) {
  const units = ["", "k", "M", "G", "T"];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) { value /= 1000; unit++; }
  return (unit ? value.toPrecision(3) : String(value)) + units[unit];
}

/**
 * rows: [{ depth, path, name, kind, … }], columns: [{ title, cell(row) → node or text, number }], open: depth unfolded at first.
 * onchoose(row, index) is told of the chosen row.
 */
function treeTable({ rows, columns, label, open, onchoose }) {
  const folded = new Set();
  const hasParts = rows.map((row, i) => i + 1 < rows.length && rows[i + 1].depth > row.depth);
  const parent = rows.map((row, i) => {
    let j = i - 1;
    while (j >= 0 && rows[j].depth >= row.depth) j--;
    return j;
  });
  rows.forEach((row, i) => { if (hasParts[i] && row.depth >= open) folded.add(i); });
  let chosen = 0;

  const lines = rows.map((row, i) => {
    const fold = el("button", { type: "button", class: "fold", tabindex: -1, "aria-label": "parts", onclick: (event) => { event.stopPropagation(); toggle(i); } });
    const steps = row.name.split(/(?<=\.)/).flatMap((step) => [step, el("wbr")]);  // a long name goes on below, at a dot
    const name = el("td", { class: "name" }, fold, el("span", {}, ...steps),
      ...(row.name.startsWith(row.kind) ? [] : [" ", el("small", {}, row.kind)]));
    name.style.paddingInlineStart = `${row.depth * 1.05 + 1.1}rem`;
    return el("tr", { role: "row", "aria-level": row.depth + 1, "data-path": row.path, title: counted(row.path), onclick: () => choose(i), onfocus: () => choose(i) },
      name, ...columns.map((column) => el("td", { class: column.number ? "number" : "" }, column.cell(row))));
  });
  const body = el("tbody", {}, ...lines);
  const table = el("table", { class: "tree", role: "treegrid", "aria-label": label },
    el("thead", {}, el("tr", {}, el("th", {}, "Module"), ...columns.map((column) => el("th", { class: column.number ? "number" : "" }, column.title)))),
    body);

  function draw() {
    const hidden = [];
    rows.forEach((row, i) => {
      const above = parent[i];
      hidden[i] = above >= 0 && (hidden[above] || folded.has(above));
      lines[i].hidden = hidden[i];
      lines[i].setAttribute("aria-selected", String(i === chosen));
      lines[i].tabIndex = i === chosen ? 0 : -1;
      if (hasParts[i]) lines[i].setAttribute("aria-expanded", String(!folded.has(i)));
      lines[i].querySelector(".fold").textContent = hasParts[i] ? (folded.has(i) ? "▸" : "▾") : "";
    });
  }
  function toggle(i, fold = !folded.has(i)) {
    if (fold) folded.add(i); else folded.delete(i);
    draw();
  }
  function choose(i) {
    if (i === chosen) return;
    chosen = i;
    draw();
    onchoose(rows[i], i);
  }
  function step(by) {
    let i = chosen + by;
    while (i >= 0 && i < rows.length && lines[i].hidden) i += by;
    if (i < 0 || i >= rows.length) return;
    choose(i);
    lines[i].scrollIntoView({ block: "nearest" });
    if (body.contains(document.activeElement)) lines[i].focus();
  }
  function keys(key) {
    if (key === "ArrowDown" || key === "ArrowUp") step(key === "ArrowDown" ? 1 : -1);
    else if (key === "ArrowRight") {
      if (hasParts[chosen] && folded.has(chosen)) toggle(chosen, false); else step(1);
    } else if (key === "ArrowLeft") {
      if (hasParts[chosen] && !folded.has(chosen)) toggle(chosen, true);
      else if (parent[chosen] >= 0) { choose(parent[chosen]); lines[chosen].scrollIntoView({ block: "nearest" }); }
    } else return false;
    return true;
  }
  draw();
  onchoose(rows[0], 0);
  return { table, keys };
}

const treeHelp = (legend) => keysHelp(legend, [["↑ ↓", "module"], ["→", "open"], ["←", "close"]]);

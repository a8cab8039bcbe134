// Attention: choose an example, a kind, a layer and a head; hover a token to see where it looks.

const KINDS = {
  cross: { label: "Target → source", rows: "target", columns: "source", row: "Target, as written", column: "Source" },
  encoder: { label: "Source → source", rows: "source", columns: "source", row: "Source, looking", column: "Source, looked at" },
  decoder: { label: "Target → target", rows: "target", columns: "read", row: "Target, as written", column: "Target, as read so far" },
  self: { label: "Self-attention", rows: "source", columns: "source", row: "Looking", column: "Looked at" },
};

views.attention = (section, host) => {
  const examples = section.examples;
  const state = { example: 0, kind: null, layer: section.layer, head: section.head, side: "row", index: 0, all: false };
  const cache = new Map();
  let colours = ramp();
  const several = (count) => examples.some(({ maps }) => Object.values(maps).some((map) => count(map) > 1));
  let now = null; // what is shown: { example, kind, map, weights, rows, columns }

  const list = el("nav", { class: "examples card", "aria-label": "Examples" });
  const title = el("h2", { dir: "auto" });
  const facts = el("dl", { class: "facts" });
  const kinds = el("div", { class: "choice", role: "group", "aria-label": "Which attention" });
  const where = el("span", { class: "note" });
  const ribbon = el("div", { class: "ribbon" });
  const looks = el("div", { class: "looks", "aria-live": "polite" });
  const heat = el("div", { class: "scroll" });
  const under = el("p", { class: "under" });
  const legend = el("p", { class: "legend" });
  const scale = el("canvas", { width: 256, height: 1 });
  // the place of a weight on the scale is its root, as its colour is
  const marks = [0, 1, 4, 10, 25, 50, 100].map((share) => el("span", { style: `left:${10 * Math.sqrt(share)}%` }, String(share)));
  const heads = el("div", { class: "heads", role: "group", "aria-label": "Layers and heads" });
  const stage = el("div", { class: "stage" },
    el("div", { class: "card" }, title, facts, el("div", { class: "bar" }, kinds, where), el("div", { class: "weave" }, ribbon, looks)),
    el("div", { class: "panels" },
      el("div", { class: "card map" }, el("h3", {}, "All weights"), legend, heat, under,
        el("div", { class: "scale" }, "Weight in %", el("div", { class: "ramp" }, scale, ...marks))),
      el("div", { class: "card" }, el("h3", {}, "Layers × heads"),
        el("p", { class: "legend" }, "A row of maps is a layer, a column a head, both counted from 1; each map has the axes and colours of the large one. Choose one to see it large."),
        el("div", { class: "scroll" }, heads))),
    keysHelp(section.note, [["← →", "token"], examples.length > 1 && ["↑ ↓", "example"], several((map) => map.layers) && ["L", "layer"],
      several((map) => map.heads) && ["H", "head"], several((map) => map.layers * map.heads) && ["M", "mean"],
      examples.some(({ maps }) => Object.keys(maps).length > 1) && ["K", "kind"]],
    several((map) => map.layers * map.heads) && "Shift goes back"));
  host.append(el("div", { class: "attention" + (examples.length > 1 ? "" : " single") },
    examples.length > 1 ? list : null, stage));

  // ---- numbers
  /** The weights of one layer and head of the map shown; null means the mean over them. */
  function weightsOf(layer, head) {
    const key = `${state.kind} ${layer} ${head}`;
    if (!cache.has(key)) cache.set(key, readWeights(now.map, layer, head));
    return cache.get(key);
  }
  const css = (weight) => `rgb(${colours[intensity(weight)].join(" ")})`;
  const at = (row, column) => now.weights[row * now.map.columns + column];

  // ---- choosing
  function choose(change) {
    const before = { ...state };
    Object.assign(state, change);
    const example = examples[state.example];
    const offered = Object.keys(KINDS).filter((kind) => kind in example.maps);
    if (!offered.includes(state.kind)) state.kind = offered[0];
    const map = example.maps[state.kind];
    if (state.layer !== null) state.layer = Math.min(state.layer, map.layers - 1);
    if (state.head !== null) state.head = Math.min(state.head, map.heads - 1);
    const { rows, columns } = KINDS[state.kind];
    now = { example, kind: KINDS[state.kind], map, rows: example[rows], columns: example[columns] };
    if (before.example !== state.example) cache.clear();
    now.weights = weightsOf(state.layer, state.head);
    const length = state.side === "row" ? map.rows : map.columns;
    state.index = Math.max(0, Math.min(state.index, length - 1));
    if (before.example !== state.example || before.kind !== state.kind) drawExample(offered);
    else if (before.layer !== state.layer || before.head !== state.head) drawMap();
    else drawFocus();
  }
  const cycle = (value, count, step) => {
    const next = (value === null ? -1 : value) + step;
    return next >= count || next === -1 ? null : next < -1 ? count - 1 : next;
  };

  // ---- drawing
  function drawList() {
    list.append(...examples.map((example, i) => el("button", { type: "button", onclick: () => choose({ example: i, side: "row", index: 0 }) },
      el("b", { dir: "auto" }, example.title),
      example.correct === null ? null : el("span", { class: example.correct ? "right" : "wrong", title: example.correct ? "right" : "wrong" }, example.correct ? "✓" : "✗"),
      el("small", { dir: "auto" }, example.output))));
  }

  function drawExample(offered) {
    const { example, map } = now;
    [...list.children].forEach((button, i) => button.setAttribute("aria-current", String(i === state.example)));
    list.children[state.example]?.scrollIntoView({ block: "nearest" });
    title.textContent = example.title;
    title.hidden = example.title === document.querySelector("h1").textContent;
    facts.replaceChildren(...example.facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { dir: "auto" }, value))));
    kinds.replaceChildren(...offered.map((kind) => el("button", { type: "button", "aria-pressed": String(kind === state.kind), onclick: () => choose({ kind, side: "row", index: 0 }) }, KINDS[kind].label)));
    drawRibbon();
    drawHeatFrame();
    drawHeads(map);
    drawMap();
  }

  function tokenRow(side, tokens) {
    return el("div", { class: `tokens ${side === "row" ? "queries" : "keys"}`, dir: "auto" },
      ...tokens.map((token, index) => el("button", {
        type: "button", class: "token", tabindex: -1, "data-side": side, "data-index": index,
        onpointerenter: () => choose({ side, index }), onfocus: () => choose({ side, index }), onclick: () => choose({ side, index }),
      }, visible(token))));
  }
  function drawRibbon() {
    ribbon.classList.toggle("many", Math.max(now.rows.length, now.columns.length) > 60);
    ribbon.replaceChildren(
      document.createElementNS("http://www.w3.org/2000/svg", "svg"),
      el("p", { class: "side" }, now.kind.column), tokenRow("column", now.columns),
      tokenRow("row", now.rows), el("p", { class: "side" }, now.kind.row));
  }

  function drawLinks() {
    const svg = ribbon.firstChild;
    const [keys, queries] = ribbon.querySelectorAll(".tokens");
    const frame = ribbon.getBoundingClientRect();
    const box = (node) => node.getBoundingClientRect();
    const tops = [...keys.children].map(box);
    const bottoms = [...queries.children].map(box);
    const oneLine = [tops, bottoms].every((boxes) => boxes.every((b) => b.top === boxes[0].top));
    const paths = [];
    const link = (row, column, chosen) => {
      const weight = at(row, column);
      if (weight < (chosen ? 0.01 : 0.08)) return;
      const x1 = (tops[column].left + tops[column].right) / 2 - frame.left;
      const x2 = (bottoms[row].left + bottoms[row].right) / 2 - frame.left;
      const y1 = tops[column].bottom - frame.top;
      const y2 = bottoms[row].top - frame.top;
      const bend = (y2 - y1) / 2;
      const path = document.createElementNS(svg.namespaceURI, "path");
      path.setAttribute("d", `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`);
      path.style.stroke = chosen ? "var(--pick)" : "var(--ramp-1)";
      path.style.strokeWidth = 1 + 6 * weight;
      path.style.opacity = chosen ? 0.25 + 0.7 * weight : 0.08 + 0.45 * weight;
      paths.push(path);
    };
    ribbon.classList.toggle("wrapped", !oneLine);
    if (!oneLine) return svg.replaceChildren(); // the colours of the tokens say it better than threads across lines
    for (let r = 0; r < now.map.rows; r++) for (let c = 0; c < now.map.columns; c++) link(r, c, false);
    if (state.side === "row") for (let c = 0; c < now.map.columns; c++) link(state.index, c, true);
    else for (let r = 0; r < now.map.rows; r++) link(r, state.index, true);
    svg.replaceChildren(...paths);
  }

  /** The chosen token's weights, strongest first. */
  function partners() {
    const others = state.side === "row" ? now.columns : now.rows;
    return others
      .map((token, i) => ({ token, i, weight: state.side === "row" ? at(state.index, i) : at(i, state.index) }))
      .sort((a, b) => b.weight - a.weight);
  }

  function drawFocus() {
    const found = partners();
    const weightOf = new Map(found.map(({ i, weight }) => [i, weight]));
    for (const token of ribbon.querySelectorAll(".token")) {
      const index = Number(token.dataset.index);
      const chosen = token.dataset.side === state.side && index === state.index;
      token.classList.toggle("chosen", chosen);
      token.tabIndex = chosen ? 0 : -1;
      const weight = token.dataset.side === state.side ? null : weightOf.get(index);
      token.style.background = weight === null ? "" : css(weight);
      token.style.color = weight !== null && intensity(weight) > 150 ? "var(--page)" : "";
      token.title = weight === null ? "" : percent(weight);
    }
    const own = (state.side === "row" ? now.rows : now.columns)[state.index];
    const shown = state.all ? found : found.slice(0, 5).filter(({ weight }) => weight >= 0.001);
    const rest = found.slice(shown.length);
    const left = rest.reduce((sum, { weight }) => sum + weight, 0);
    looks.replaceChildren(
      el("p", {}, el("b", { dir: "auto" }, visible(own ?? "")), state.side === "row" ? " looks at" : " is looked at by"),
      el("ol", {}, ...shown.map(({ token, weight }) => {
        const bar = el("i");
        bar.style.width = `${100 * Math.min(1, weight)}%`;
        return el("li", {}, el("span", { dir: "auto" }, visible(token)), bar, el("span", {}, percent(weight)));
      })),
      ...(!rest.length && !(state.all && found.length > 5) ? [] : [el("button", { type: "button", class: "quiet rest", onclick: () => choose({ all: !state.all }) },
        state.all ? `all ${found.length}; show the first` : `${rest.length} of ${found.length} not shown, ${percent(left)} together; show all`)]));
    drawLinks();
    drawBand();
  }

  // ---- heat map
  let cell = 20;
  function drawHeatFrame() {
    const { map } = now;
    heat.replaceChildren();
    const room = Math.max(240, heat.clientWidth - 95);
    cell = Math.max(11, Math.min(30, Math.floor(room / map.columns), Math.floor(760 / map.rows)));
    const font = `${Math.min(14, cell - 1)}px`;
    const columns = el("div", { class: "columns" }, ...now.columns.map((token, i) => {
      const label = el("span", { dir: "auto" }, visible(token));
      label.style.left = `${(i + 0.6) * cell}px`;
      return label;
    }));
    columns.style.cssText = `width:${map.columns * cell + 70}px;font-size:${font}`;
    const rows = el("div", { class: "rows" }, ...now.rows.map((token) => el("span", { dir: "auto" }, visible(token))));
    rows.style.cssText = `grid-auto-rows:${cell}px;line-height:${cell}px;font-size:${font}`;
    const grid = el("div", { class: "grid" });
    grid.style.backgroundSize = `${cell}px ${cell}px`;
    const cells = el("div", { class: "cells", onpointermove: point, onpointerdown: point, onpointerleave: () => under.replaceChildren() },
      el("canvas", { role: "img", "aria-label": "Heat map of all weights" }), grid, el("div", { class: "band" }));
    cells.style.cssText = `width:${map.columns * cell}px;height:${map.rows * cell}px`;
    legend.textContent = `Rows ↓: ${now.kind.row}. Columns →: ${now.kind.column}. A row is what one token looks at, and adds up to 100 %.`;
    heat.append(el("div", { class: "heat" }, el("div", { class: "corner" }, `${now.kind.column} →`, el("br"), `${now.kind.row} ↓`), columns, rows, cells));
    const tallest = Math.max(...[...columns.children].map((label) => label.getBoundingClientRect().height));
    columns.style.height = `${tallest + 6}px`;
  }
  function point(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const row = Math.min(now.map.rows - 1, Math.max(0, Math.floor((event.clientY - box.top) / cell)));
    const column = Math.min(now.map.columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / cell)));
    choose({ side: "row", index: row });
    under.replaceChildren(el("bdi", {}, visible(now.rows[row])), " → ", el("bdi", {}, visible(now.columns[column])), `  ${percent(at(row, column))}`);
  }
  function drawBand() {
    const band = heat.querySelector(".band");
    const own = state.side === "row";
    band.style.cssText = own
      ? `left:0;right:0;top:${state.index * cell}px;height:${cell}px`
      : `top:0;bottom:0;left:${state.index * cell}px;width:${cell}px`;
    heat.querySelectorAll(".rows span").forEach((label, i) => label.classList.toggle("chosen", own && i === state.index));
    heat.querySelectorAll(".columns span").forEach((label, i) => label.classList.toggle("chosen", !own && i === state.index));
  }

  // ---- layers and heads
  function drawHeads(map) {
    const layers = map.layers > 1 ? [...Array(map.layers).keys(), null] : [0];
    const columns = map.heads > 1 ? [...Array(map.heads).keys(), null] : [0];
    const width = Math.max(26, Math.min(68, Math.floor(480 / columns.length)));
    const height = Math.round(Math.max(16, Math.min(90, (width * map.rows) / map.columns)));
    heads.style.gridTemplateColumns = `auto repeat(${columns.length}, ${width}px)`;
    heads.replaceChildren(el("span"), ...columns.map((h) => el("span", {}, h === null ? "mean" : String(h + 1))));
    for (const layer of layers) {
      heads.append(el("span", {}, layer === null ? "mean" : `layer ${layer + 1}`));
      for (const head of columns) {
        const canvas = el("canvas");
        const button = el("button", {
          type: "button", "data-layer": layer ?? "mean", "data-head": head ?? "mean", "aria-label": nameOf(layer, head),
          title: nameOf(layer, head), onclick: () => choose({ layer, head }), onkeydown: (event) => moveInGrid(event, layers, columns),
        }, canvas);
        button.style.height = `${height}px`;
        heads.append(button);
      }
    }
  }
  function moveInGrid(event, layers, columns) {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    event.stopPropagation();
    const move = (all, value, step) => all[Math.max(0, Math.min(all.length - 1, Math.max(0, all.indexOf(value)) + step))];
    choose({ layer: move(layers, state.layer, down), head: move(columns, state.head, right) });
    heads.querySelector('[aria-pressed="true"]')?.focus();
  }
  const aligns = (layer) => now.kind === KINDS.cross && now.map.layers > 1 && layer === now.example.aligning;
  const nameOf = (layer, head) =>
    (layer === null ? "mean of all layers" : `layer ${layer + 1}`) + (aligns(layer) ? " (the one that alignments are taken from), " : ", ")
    + (now.map.averaged ? `mean of its ${now.map.averaged} heads, which are too large to keep singly` : head === null ? "mean of all heads" : `head ${head + 1}`);

  function paintHeads() {
    for (const button of heads.querySelectorAll("button")) {
      const { layer, head } = button.dataset;
      const weights = weightsOf(layer === "mean" ? null : Number(layer), head === "mean" ? null : Number(head));
      paint(button.firstChild, colours, weights, now.map.columns);
    }
  }
  function drawMap() {
    const { map } = now;
    where.textContent = nameOf(map.layers > 1 ? state.layer : 0, map.heads > 1 ? state.head : 0);
    const layer = map.layers > 1 ? state.layer ?? "mean" : 0;
    const head = map.heads > 1 ? state.head ?? "mean" : 0;
    for (const button of heads.querySelectorAll("button")) {
      const chosen = button.dataset.layer === String(layer) && button.dataset.head === String(head);
      button.setAttribute("aria-pressed", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    paint(heat.querySelector("canvas"), colours, now.weights, map.columns);
    if (heads.dataset.painted !== `${state.example} ${state.kind}`) {
      paintHeads();
      heads.dataset.painted = `${state.example} ${state.kind}`;
    }
    drawFocus();
  }
  function drawScale() {
    paint(scale, colours, Float32Array.from({ length: 256 }, (_, i) => (i / 255) ** 2), 256);
  }

  drawList();
  drawScale();
  choose({});
  themeListeners.push(() => {
    colours = ramp();
    heads.dataset.painted = "";
    drawScale();
    drawMap();
  });
  new ResizeObserver(() => { drawHeatFrame(); drawMap(); }).observe(stage);

  // ---- keys; Shift goes the other way
  return (key) => {
    const step = key.length === 1 && key === key.toUpperCase() ? -1 : 1;
    const rightToLeft = getComputedStyle(ribbon.querySelector(state.side === "row" ? ".queries" : ".keys")).direction === "rtl";
    const forward = rightToLeft ? "ArrowLeft" : "ArrowRight";
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const focused = ribbon.contains(document.activeElement);
      choose({ index: state.index + (key === forward ? 1 : -1) });
      if (focused) ribbon.querySelector(".token.chosen").focus();
      const band = heat.querySelector(".band");
      heat.scrollTo({ top: band.offsetTop - heat.clientHeight / 3, left: state.side === "row" ? heat.scrollLeft : band.offsetLeft });
    } else if (key === "ArrowUp" || key === "ArrowDown") {
      const example = state.example + (key === "ArrowDown" ? 1 : -1);
      if (example < 0 || example >= examples.length) return false;
      choose({ example, side: "row", index: 0 });
    } else if (key.toLowerCase() === "l") choose({ layer: cycle(state.layer, now.map.layers, step) });
    else if (key.toLowerCase() === "h") choose({ head: cycle(state.head, now.map.heads, step) });
    else if (key.toLowerCase() === "m") choose({ layer: null, head: null });
    else if (key.toLowerCase() === "k") {
      const offered = Object.keys(KINDS).filter((kind) => kind in now.example.maps);
      choose({ kind: offered[(offered.indexOf(state.kind) + step + offered.length) % offered.length], side: "row", index: 0 });
    } else return false;
    return true;
  };
};

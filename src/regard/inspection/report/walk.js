// The walk: every call in order; the chosen one with its formula, tensors, mask and gradients.

const number = (value) => (value === null ? "–" : Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(3))));

/** From logits to tokens: the target as a row of tokens; the chosen one tells what else it might have been. */
function choiceCard(choices) {
  const list = el("ol", {});
  const note = el("p", { "aria-live": "polite" });
  const tokens = choices.map((choice, i) => el("button", { type: "button", class: "token", onclick: () => choose(i), onpointerenter: () => choose(i) }, visible(choice.token)));
  function choose(i) {
    const { after, token, probability, rank, candidates } = choices[i];
    tokens.forEach((button, j) => button.classList.toggle("chosen", i === j));
    note.replaceChildren("after ", el("bdi", {}, visible(after)), " came ", el("b", { dir: "auto" }, visible(token)),
      ` with ${percent(probability ?? 0)}` + (rank > 1 ? `, number ${rank} of all` : "") + `; the ${candidates.length} most probable:`);
    list.replaceChildren(...candidates.map((candidate) => {
      const bar = el("i");
      bar.style.width = `${100 * candidate.probability}%`;
      return el("li", {}, el("span", { dir: "auto" }, visible(candidate.token)), bar, el("span", {}, `${percent(candidate.probability)}  (logit ${number(candidate.logit)})`));
    }));
  }
  choose(0);
  return el("div", { class: "card looks" }, el("h3", {}, "From logits to tokens"), el("div", { class: "tokens scroll few", dir: "auto" }, ...tokens), note, list);
}

views.walk = (section, host) => {
  const detail = el("div", { class: "card detail", "aria-live": "polite" });
  const milliseconds = (seconds) => `${Number((1000 * seconds).toPrecision(2))}\u00a0ms`;
  /** Tensors alike in a row are told once: 3 × [B=1, …]. */
  function axesOf(tensors) {
    const runs = [];
    for (const { axes } of tensors) if (runs.at(-1)?.axes === axes) runs.at(-1).count++; else runs.push({ axes, count: 1 });
    return runs.map(({ axes, count }) => (count > 1 ? `${count} × ` : "") + `[${axes}]`).join(" ");
  }
  /** As in a terminal: one shape for in and out where they do not differ, and of a step what comes out. */
  function change({ kind, inputs, outputs }) {
    const [before, after] = [axesOf(inputs), axesOf(outputs)];
    return before === after ? after : `${kind === "step" ? "" : before} → ${after}`.trimStart();
  }

  function tensorTable(title, tensors) {
    if (!tensors.length) return null;
    const bad = (tensor) => tensor.nan + tensor.inf;
    return el("div", {}, el("h3", {}, title), el("table", { class: "facts-table scroll" },
      el("tr", {}, ...["axes", "type", "mean", "std", "min", "max", "NaN/∞", "memory"].map((name) => el("th", {}, name))),
      ...tensors.map((tensor) => el("tr", {}, el("td", { class: "axes" }, `[${tensor.axes}]`), el("td", {}, tensor.dtype),
        ...["mean", "std", "low", "high"].map((name) => el("td", { class: "number" }, number(tensor[name]))),
        el("td", { class: bad(tensor) ? "number wrong" : "number" }, String(bad(tensor))),
        el("td", { class: "number" }, memory(tensor.bytes))))));
  }
  function maskPicture(mask) {
    const canvas = el("canvas", { role: "img", "aria-label": "mask: queries × keys" });
    const [on, off] = ["--ramp-2", "--ramp-0"].map((name) => getComputedStyle(document.documentElement).getPropertyValue(name));
    canvas.width = mask.columns;
    canvas.height = mask.rows;
    const context = canvas.getContext("2d");
    const bits = Uint8Array.from(atob(mask.data), (c) => c.charCodeAt(0));
    for (let i = 0; i < mask.rows * mask.columns; i++) {
      context.fillStyle = (bits[i >> 3] >> (7 - (i & 7))) & 1 ? on : off;
      context.fillRect(i % mask.columns, Math.floor(i / mask.columns), 1, 1);
    }
    const scale = Math.max(1, Math.min(14, Math.floor(220 / Math.max(mask.rows, mask.columns))));
    canvas.style.cssText = `width:${mask.columns * scale}px;height:${mask.rows * scale}px`;
    return el("div", {}, el("h3", {}, "Mask: a row (query) sees the dark columns (keys)"), canvas);
  }
  function gradientTable(gradients) {
    if (!gradients.length) return null;
    return el("div", {}, el("h3", {}, "Gradients"), el("table", { class: "facts-table scroll" },
      el("tr", {}, ...["parameter", "norm", "rows without"].map((name) => el("th", {}, name))),
      ...gradients.map((g) => el("tr", {}, el("td", {}, counted(g.path)), el("td", { class: "number" }, number(g.norm)),
        el("td", { class: g.dead ? "number wrong" : "number" }, `${g.dead} of ${g.units}`)))));
  }
  let shown = null;
  function show(visit) {
    shown = visit;
    const own = (path) => path.startsWith(visit.path === "" ? "" : `${visit.path}.`) && !path.slice(visit.path.length + (visit.path ? 1 : 0)).includes(".");
    detail.replaceChildren(
      el("h2", {}, visit.name),
      el("p", { class: "note" }, [counted(visit.path) || "the whole model", visit.kind, visit.kind === "step" ? null : `${compact(visit.parameters)} parameters`, milliseconds(visit.seconds)].filter(Boolean).join(" · ")),
      visit.formula ? el("p", { class: "formula" }, visit.formula) : null,
      visit.source ? el("p", { class: "note" }, visit.source) : null,
      ...[tensorTable("In", visit.inputs), tensorTable("Out", visit.outputs),
        visit.path in section.masks ? maskPicture(section.masks[visit.path]) : null,
        gradientTable(section.gradients.filter((gradient) => own(gradient.path)))].filter(Boolean));
  }
  themeListeners.push(() => show(shown));

  const tree = treeTable({
    rows: section.visits, label: "Calls in order", open: 2, onchoose: show,
    columns: [
      { title: "In → out", cell: change },
      { title: "Time", number: true, cell: (visit) => milliseconds(visit.seconds) },
    ],
  });
  const fate = section.choices.length ? choiceCard(section.choices) : null;
  host.append(el("div", { class: "split" },
    el("div", { class: "card" }, el("div", { class: "scroll tall" }, tree.table), treeHelp(section.legend)),
    el("div", { class: "aside" }, detail, fate)));
  return tree.keys;
};

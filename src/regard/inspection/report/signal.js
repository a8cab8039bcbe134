// Signals: a case as lines over time, and behind each value how much it counted: blue for the answer, orange against it.

views.signal = (section, host) => {
  const state = { shown: 0, view: 0 };
  const space = "http://www.w3.org/2000/svg";
  const drawn = (tag, attributes) => {
    const node = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const list = el("nav", { class: "card examples", "aria-label": "Cases" });
  const stage = el("div", { class: "card" });
  const buttons = section.cases.map((item, i) => el("button", { type: "button", onclick: () => choose(i) }, el("b", {}, item.title), el("small", {}, item.answer)));
  list.append(...buttons);
  host.append(el("div", { class: section.cases.length > 1 ? "attention" : "attention single" }, section.cases.length > 1 ? list : null, stage));

  /** One channel, 1000 wide: bands of weight, then the line of its values. */
  function channel(values, weights, largest) {
    const width = 1000, height = 140, low = Math.min(...values), high = Math.max(...values), room = high - low || 1;
    const step = width / values.length;
    const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", style: "width:100%;height:8.5rem;display:block" });
    weights.forEach((weight, i) => {
      const band = drawn("rect", { x: i * step, y: 0, width: step + 0.3, height });
      band.style.fill = weight < 0 ? "var(--pick)" : "var(--ramp-1)";
      band.style.opacity = 0.85 * Math.abs(weight) / largest;
      band.append(drawn("title", {}));
      band.firstChild.textContent = `frame ${i}: value ${values[i]}, weight ${weight}`;
      picture.append(band);
    });
    const y = (value) => height - 6 - (height - 12) * (value - low) / room;
    const line = drawn("polyline", { points: values.map((value, i) => `${(i + 0.5) * step},${y(value)}`).join(" "), "vector-effect": "non-scaling-stroke" });
    line.style.cssText = "fill:none;stroke:var(--ink);stroke-width:1.4;pointer-events:none";
    picture.append(line);
    return picture;
  }

  function choose(i, view = state.view) {
    state.shown = Math.max(0, Math.min(section.cases.length - 1, i));
    const item = section.cases[state.shown];
    state.view = Math.min(view, item.views.length - 1);
    buttons.forEach((button, j) => button.setAttribute("aria-current", String(j === state.shown)));
    const chosen = item.views[state.view];
    const largest = Math.max(...chosen.weights.flat().map(Math.abs)) || 1;
    const choice = el("div", { class: "bar" }, el("div", { class: "choice" }, ...item.views.map((one, j) => el("button", { type: "button", "aria-pressed": String(j === state.view), onclick: () => choose(state.shown, j) }, one.name))));
    stage.replaceChildren(el("h2", {}, item.title), el("p", { class: "lead" }, item.answer), choice,
      ...item.signal.map((values, c) => channel(values, chosen.weights[chosen.weights.length > 1 ? c : 0], largest)),
      el("p", { class: "note" }, section.note));
  }
  choose(0);
  return (key) => {
    if (key === "ArrowDown" || key === "ArrowUp") choose(state.shown + (key === "ArrowDown" ? 1 : -1));
    else return false;
    return true;
  };
};

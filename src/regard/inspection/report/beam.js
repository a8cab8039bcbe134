// The beam: a column per step, a row per rank; follow any hypothesis back to the start. The one that won is marked: it
// may have ended long before the last step.

views.beam = (section, host) => {
  const steps = section.steps;
  const [wonStep, wonRank] = section.won ?? [steps.length - 1, 0];
  const isWinner = (step, rank) => section.won !== null && step === wonStep && rank === wonRank;
  const state = { step: wonStep, rank: wonRank };
  const said = el("p", { class: "hypothesis", dir: "auto", "aria-live": "polite" });
  const note = el("p", { class: "note" });
  const field = el("div", { class: "beam" });
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const columns = steps.map((beams, step) => el("div", { class: "column" }, el("small", {}, String(step + 1)),
    ...beams.map((beam, rank) => el("button", {
      type: "button", class: "token" + (beam.finished ? " finished" : "") + (isWinner(step, rank) ? " won" : ""), tabindex: -1, "data-step": step, "data-rank": rank,
      title: `score ${beam.score.toFixed(3)}`, onclick: () => choose(step, rank), onpointerenter: () => choose(step, rank),
    }, visible(beam.token), isWinner(step, rank) ? el("small", {}, " ★") : null))));
  field.append(svg, ...columns);
  const button = (step, rank) => field.querySelector(`[data-step="${step}"][data-rank="${rank}"]`);

  /** The chosen hypothesis from its first token on, as [step, rank] pairs. */
  function path() {
    const found = [];
    for (let step = state.step, rank = state.rank; step >= 0 && rank !== null; step--) {
      found.unshift([step, rank]);
      rank = steps[step][rank].parent;
    }
    return found;
  }
  function choose(step, rank) {
    state.step = Math.max(0, Math.min(steps.length - 1, step));
    state.rank = Math.max(0, Math.min(steps[state.step].length - 1, rank));
    draw();
  }
  function draw() {
    const way = path();
    const onWay = new Set(way.map(([step, rank]) => `${step} ${rank}`));
    for (const token of field.querySelectorAll(".token")) {
      const { step, rank } = token.dataset;
      const chosen = Number(step) === state.step && Number(rank) === state.rank;
      token.classList.toggle("chosen", onWay.has(`${step} ${rank}`));
      token.tabIndex = chosen ? 0 : -1;
    }
    const beam = steps[state.step][state.rank];
    said.textContent = way.map(([step, rank]) => visible(steps[step][rank].token)).join(" ");
    const sum = beam.log_prob === null ? "" : ` from log-probability ${beam.log_prob.toFixed(3)} and ${way.length} tokens`;
    note.textContent = `Step ${state.step + 1} of ${steps.length}, rank ${state.rank + 1}, score ${beam.score.toFixed(3)}${sum}`
      + (beam.finished ? ", finished" : "") + (isWinner(state.step, state.rank) ? ": ★ the output" : "");
    drawLinks(onWay);
  }
  function drawLinks(onWay) {
    const frame = field.getBoundingClientRect();
    svg.style.width = `${field.scrollWidth}px`;
    const paths = [];
    steps.forEach((beams, step) => beams.forEach((beam, rank) => {
      if (step === 0 || beam.parent === null) return;
      const from = button(step - 1, beam.parent).getBoundingClientRect();
      const to = button(step, rank).getBoundingClientRect();
      const [x1, y1] = [from.right - frame.left + field.scrollLeft, (from.top + from.bottom) / 2 - frame.top];
      const [x2, y2] = [to.left - frame.left + field.scrollLeft, (to.top + to.bottom) / 2 - frame.top];
      const bend = (x2 - x1) / 2;
      const chosen = onWay.has(`${step} ${rank}`) && onWay.has(`${step - 1} ${beam.parent}`);
      const link = document.createElementNS(svg.namespaceURI, "path");
      link.setAttribute("d", `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
      link.style.stroke = chosen ? "var(--pick)" : "var(--ramp-1)";
      link.style.strokeWidth = chosen ? 2.5 : 1.2;
      link.style.opacity = chosen ? 1 : 0.5;
      if (chosen) paths.push(link); else paths.unshift(link);
    }));
    svg.replaceChildren(...paths);
  }
  const legend = "A column is a step, the best hypothesis on top; steps and ranks are counted from 1. Dashed: ended here."
    + (section.won === null ? "" : " ★ is the output: of all that ended, the one with the highest score.");
  host.append(el("div", { class: "card" }, said, note, el("div", { class: "scroll" }, field),
    el("p", { class: "legend" }, [legend, section.note].filter(Boolean).join(" ") ),
    keysHelp("", [steps.length > 1 && ["← →", "step"], steps.some((beams) => beams.length > 1) && ["↑ ↓", "hypothesis"]])));
  draw();
  new ResizeObserver(draw).observe(field);

  return (key) => {
    if (key === "ArrowRight") {
      const next = steps[state.step + 1]?.findIndex((beam) => beam.parent === state.rank) ?? -1;
      choose(state.step + 1, Math.max(0, next));
    } else if (key === "ArrowLeft") choose(state.step - 1, steps[state.step][state.rank].parent ?? 0);
    else if (key === "ArrowUp" || key === "ArrowDown") choose(state.step, state.rank + (key === "ArrowDown" ? 1 : -1));
    else return false;
    button(state.step, state.rank).scrollIntoView({ block: "nearest", inline: "nearest" });
    return true;
  };
};

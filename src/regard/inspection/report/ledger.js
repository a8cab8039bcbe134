// The ledger: what each module holds and does, with its share of the whole as a bar.

views.ledger = (section, host) => {
  const whole = section.entries[0].total;
  const names = [["parameters", "Parameters"], ["bytes", "Memory (B)"], ["flops", "FLOPs"], ["activations", "Kept for backward (B)"]]
    .filter(([name]) => whole[name] > 0);
  const share = (part, all) => {
    const bar = el("i", { class: "share" });
    bar.style.width = `${(3.6 * part) / all}rem`;
    return bar;
  };
  const cell = (name) => ({ total }) => el("div", { class: "amount" }, total[name] === 0 ? null : share(total[name], whole[name]), el("span", { title: total[name].toLocaleString("en") },
    name === "parameters" ? total[name].toLocaleString("en") : compact(total[name])));
  const sentence = el("p", { class: "lead", "aria-live": "polite" });
  const tree = treeTable({
    rows: section.entries, label: "Modules", open: 2,
    columns: names.map(([name, title]) => ({ title, number: true, cell: cell(name) })),
    onchoose: ({ path, kind, total, own, shared }) => {
      const portion = whole.parameters ? percent(total.parameters / whole.parameters) : "0 %";
      sentence.textContent = `${counted(path) || kind}: ${total.parameters.toLocaleString("en")} parameters, ${portion} of all; `
        + `${own.parameters.toLocaleString("en")} of its own`
        + (shared.length ? `; shares ${shared.map(counted).join(", ")}, counted there.` : ".");
    },
  });
  host.append(el("div", { class: "card" }, sentence, section.note ? el("p", { class: "note" }, section.note) : null,
    el("div", { class: "scroll" }, tree.table), treeHelp(section.legend)));
  return tree.keys;
};

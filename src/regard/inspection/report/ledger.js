// The ledger: what each module holds and does, with its share of the whole as a bar.

views.ledger = (section, host) => {
  const whole = section.entries[0].total;
  const exactly = (value) => value.toLocaleString("en");
  const names = [["parameters", "Parameters", exactly], ["bytes", "Memory", memory], ["flops", "FLOPs", compact], ["activations", "Kept for backward", memory]]
    .filter(([name]) => whole[name] > 0);
  const share = (part, all) => {
    const bar = el("i", { class: "share" });
    bar.style.width = `${(3.6 * part) / all}rem`;
    return bar;
  };
  /** A row that holds nothing because another part has it says where that is. */
  const cell = (name, shown) => ({ total, shared, shared_with }) => {
    const value = total[name];
    const elsewhere = name === "parameters" && shared.length > 0;
    return el("div", { class: "amount" }, value === 0 ? null : share(value, whole[name]),
      value === 0 && elsewhere ? null : el("span", { title: exactly(value) }, value === 0 ? "0" : shown(value)),
      elsewhere ? el("small", { title: shared.map(counted).join(", ") }, `${value === 0 ? "" : ", the rest "}shared with ${shared_with.join(", ")}`) : null);
  };
  const sentence = el("p", { class: "lead", "aria-live": "polite" });
  const tree = treeTable({
    rows: section.entries, label: "Modules", open: 2,
    columns: names.map(([name, title, shown]) => ({ title, number: true, cell: cell(name, shown) })),
    onchoose: ({ path, kind, total, own, shared }) => {
      const portion = whole.parameters ? percent(total.parameters / whole.parameters) : "0 %";
      sentence.textContent = `${counted(path) || kind}: ${exactly(total.parameters)} parameters, ${portion} of all; `
        + `${exactly(own.parameters)} of its own`
        + (shared.length ? `; shares ${shared.map(counted).join(", ")}, counted there.` : ".");
    },
  });
  host.append(el("div", { class: "card" }, sentence, section.note ? el("p", { class: "note" }, section.note) : null,
    el("div", { class: "scroll" }, tree.table), treeHelp(section.legend)));
  return tree.keys;
};

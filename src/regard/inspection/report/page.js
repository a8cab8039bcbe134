"use strict";
// The shell: reads the data, makes one tab per section, keeps the theme. Each section's file adds its view to `views`.
// Text from models and people only ever enters the page as text nodes.

const views = {};

/** Make an element: attributes by name, `on…` as listeners, children as nodes or text. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** A token as people can see it: blanks get a sign. */
function visible(token) {
  if (token === "") return "∅";
  return token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$|^ | $/g, (blanks) => "␣".repeat(blanks.length));
}

/** Bytes as people read them; a B alone is the batch. */
function memory(bytes) {
  return bytes < 1000 ? `${bytes} bytes` : compact(bytes).replace(/[kMGT]$/, " $&B");
}

/** What can be pressed: [key, what it does] pairs, those that do nothing being false; before and behind them a note. */
function keysHelp(before, keys, behind) {
  return el("p", { class: "keys-help" }, before ? el("span", {}, before) : null,
    ...keys.filter(Boolean).map(([key, word]) => el("span", {}, el("kbd", {}, key), ` ${word}`)), behind ? el("span", {}, behind) : null);
}

function percent(weight) {
  const value = 100 * weight;
  if (value > 0 && value < 0.05) return "< 0.1 %";
  return (value >= 9.95 || value === 0 ? Math.round(value) : value.toFixed(1)) + " %";
}

/** The 256 colours of the ramp as [r, g, b], from the style sheet's three stops, so that themes apply. */
function ramp() {
  const style = getComputedStyle(document.documentElement);
  const stops = [0, 1, 2].map((i) => {
    const hex = style.getPropertyValue(`--ramp-${i}`).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  });
  return Array.from({ length: 256 }, (_, byte) => {
    const x = (byte / 255) * 2;
    const from = stops[Math.min(1, Math.floor(x))];
    const to = stops[Math.min(2, Math.floor(x) + 1)];
    return from.map((value, i) => Math.round(value + (to[i] - value) * (x - Math.min(1, Math.floor(x)))));
  });
}

const themeListeners = [];

function startTheme() {
  const button = document.getElementById("theme");
  const names = ["auto", "light", "dark"];
  let chosen = 0;
  const tell = () => themeListeners.forEach((listener) => listener());
  button.addEventListener("click", () => {
    chosen = (chosen + 1) % names.length;
    button.textContent = `Theme: ${names[chosen]}`;
    document.documentElement.dataset.theme = names[chosen];
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}

/** Show one section at a time; a section is drawn when it is first shown and told of keys only while it is. */
function startSections(sections) {
  const tabs = document.getElementById("tabs");
  const main = document.getElementById("sections");
  let shown = null;
  const parts = sections.map((section, i) => {
    const panel = el("section", { id: `section-${i}`, hidden: true, role: "tabpanel", "aria-labelledby": `tab-${i}` });
    const tab = el("button", {
      type: "button", role: "tab", id: `tab-${i}`, "aria-controls": panel.id, onclick: () => show(i),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.stopPropagation();
        show((i + step + sections.length) % sections.length);
        parts[shown].tab.focus();
      },
    }, section.name);
    main.append(panel);
    if (sections.length > 1) tabs.append(tab);
    return { section, panel, tab, keys: null };
  });
  function show(i) {
    shown = i;
    parts.forEach((part, j) => {
      part.panel.hidden = i !== j;
      part.tab.setAttribute("aria-selected", String(i === j));
      part.tab.tabIndex = i === j ? 0 : -1;
    });
    const part = parts[i];
    part.keys ??= views[part.section.type](part.section, part.panel) || (() => false);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || shown === null) return;
    if (parts[shown].keys(event.key)) event.preventDefault();
  });
  show(0);
}

document.addEventListener("DOMContentLoaded", () => {
  startTheme();
  startSections(JSON.parse(document.getElementById("data").textContent).sections);
});

"use strict";
(() => {
  const kinds = JSON.parse(document.getElementById("data").textContent);
  for (const kind of kinds) kind.bytes = Uint8Array.from(atob(kind.maps), (letter) => letter.charCodeAt(0));
  const chosen = { kind: 0, layer: -1, head: -1 }; // -1: the mean of all
  const [choice, large, all] = ["choice", "large", "all"].map((name) => document.getElementById(name));
  const drawing = "http://www.w3.org/2000/svg";

  // The map of a layer and head, or the mean over those that are not chosen, as shares of a row's attention.
  function map(kind, layer, head) {
    const size = kind.rows.length * kind.columns.length, sum = new Float64Array(size);
    let count = 0;
    for (let l = 0; l < kind.layers; l++) for (let h = 0; h < kind.heads; h++) {
      if ((layer >= 0 && l !== layer) || (head >= 0 && h !== head)) continue;
      const start = (l * kind.heads + h) * size;
      for (let place = 0; place < size; place++) sum[place] += kind.bytes[start + place];
      count++;
    }
    return sum.map((value) => value / count / 255);
  }

  function element(name, parent, text, attributes = {}, space = null) {
    const made = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    parent.append(made);
    return made;
  }

  function row(label, names, current, choose) {
    const group = element("div", choice, "");
    if (label) element("span", group, label);
    const buttons = element("div", group, "", { class: "row" });
    names.forEach(([name, value]) => {
      const button = element("button", buttons, name, { type: "button", "aria-pressed": String(value === current) });
      button.onclick = () => { choose(value); show(); };
    });
  }

  const numbered = (count) => [["mean", -1], ...Array.from({ length: count }, (_, place) => [String(place + 1), place])];
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

  function showChoice(kind) {
    choice.replaceChildren();
    row("", kinds.map((one, place) => [one.title, place]), chosen.kind, (value) => { chosen.kind = value; clip(); });
    row("layer", numbered(kind.layers), chosen.layer, (value) => { chosen.layer = value; });
    row("head", numbered(kind.heads), chosen.head, (value) => { chosen.head = value; });
    element("p", choice, kind.note);
  }

  function clip() {
    const kind = kinds[chosen.kind];
    if (chosen.layer >= kind.layers) chosen.layer = -1;
    if (chosen.head >= kind.heads) chosen.head = -1;
  }

  function showLarge(kind) {
    const values = map(kind, chosen.layer, chosen.head), most = Math.max(...values) || 1;
    const [rows, columns] = [kind.rows, kind.columns], longest = (names) => Math.max(...names.map((name) => [...name].length));
    const cell = Math.max(15, Math.min(34, Math.floor(640 / Math.max(rows.length, columns.length))));
    const left = 18 + 8 * longest(rows), top = 18 + 8 * longest(columns);
    const [width, height] = [left + cell * columns.length + 4, top + cell * rows.length + 4];
    large.replaceChildren();
    const svg = element("svg", large, "", { width, height, viewBox: `0 0 ${width} ${height}` }, drawing);
    const across = columns.map((name, j) => element("text", svg, name, { transform: `translate(${left + cell * j + cell / 2 + 4} ${top - 8}) rotate(-90)` }, drawing));
    const down = rows.map((name, i) => element("text", svg, name, { x: left - 8, y: top + cell * i + cell / 2 + 4, "text-anchor": "end" }, drawing));
    const caption = element("figcaption", large, "");
    const rest = `0 to ${percent(most)} of a row's attention; an even look is ${percent(1 / columns.length)}`;
    caption.textContent = rest;
    rows.forEach((from, i) => columns.forEach((to, j) => {
      const value = values[i * columns.length + j];
      const place = { class: "cell", x: left + cell * j, y: top + cell * i, width: cell - 1, height: cell - 1, rx: Math.min(3, cell / 7), "fill-opacity": Math.max(value / most, 0.035) };
      const square = element("rect", svg, "", place, drawing);
      const light = (on) => [square, down[i], across[j]].forEach((one) => one.classList.toggle("here", on));
      square.onmouseenter = () => { light(true); caption.replaceChildren(); element("b", caption, from); caption.append(" looked at "); element("b", caption, to); caption.append(` with ${percent(value)}`); };
      square.onmouseleave = () => { light(false); caption.textContent = rest; };
    }));
  }

  function showAll(kind) {
    all.replaceChildren();
    element("h2", all, "every layer and head");
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim().split(/\s+/).map(Number);
    const [high, wide] = [kind.rows.length, kind.columns.length], scale = 74 / Math.max(high, wide);
    for (let layer = 0; layer < kind.layers; layer++) {
      const line = element("div", all, "", { class: "layer" });
      element("span", line, `layer ${layer + 1}`);
      const heads = element("div", line, "", { class: "heads" });
      for (let head = 0; head < kind.heads; head++) {
        const here = layer === chosen.layer && head === chosen.head;
        const button = element("button", heads, "", { type: "button", "aria-pressed": String(here), title: `layer ${layer + 1}, head ${head + 1}` });
        const canvas = element("canvas", button, "", { width: wide, height: high });
        canvas.style.width = `${Math.max(12, wide * scale)}px`;
        canvas.style.height = `${Math.max(12, high * scale)}px`;
        const pen = canvas.getContext("2d"), image = pen.createImageData(wide, high), values = map(kind, layer, head), most = Math.max(...values) || 1;
        values.forEach((value, place) => image.data.set([...colour, Math.round(255 * Math.max(value / most, 0.04))], 4 * place));
        pen.putImageData(image, 0, 0);
        button.onclick = () => { Object.assign(chosen, { layer, head }); show(); };
      }
    }
  }

  function show() {
    const kind = kinds[chosen.kind];
    showChoice(kind);
    showLarge(kind);
    showAll(kind);
  }
  show();
})();

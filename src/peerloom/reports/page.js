"use strict";
// Tooltips, curves to hide, and the choice of view and scale. Every chart is drawn by Python; its
// numbers and axes come along as JSON, so that this script only maps values to pixels.

const power = (axis, value) => (axis.log ? Math.log10(value) : value);

function pixel(axis, value) {
  const low = power(axis, axis.low), high = power(axis, axis.high);
  return axis.start + (axis.end - axis.start) * (power(axis, value) - low) / (high - low || 1);
}

function holds(axis, value) {
  if (value === null || (axis.log && value <= 0)) return false;
  const low = power(axis, axis.low), high = power(axis, axis.high), here = power(axis, value);
  const slack = 1e-6 * Math.abs(high - low);
  return low - slack <= here && here <= high + slack;
}

// The points of a curve that a frame can show, in pixels; k is their index among the values.
function points(frame, curve) {
  const found = [];
  curve.x.forEach((x, k) => {
    const values = [curve.y[k], (curve.low || curve.y)[k], (curve.high || curve.y)[k]];
    if (!holds(frame.x, x) || !values.every(value => holds(frame.y, value))) return;
    const [y, low, high] = values.map(value => pixel(frame.y, value));
    found.push({k, x: pixel(frame.x, x), y, low, high});
  });
  return found;
}

const path = corners =>
  corners.map(([x, y], k) => (k ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("");

const line = some => path(some.map(p => [p.x, p.y])) + (some.length === 1 ? "h0" : "");

const band = some => some.length < 2 ? "" :
  path([...some.map(p => [p.x, p.high]), ...some.map(p => [p.x, p.low]).reverse()]) + "Z";

// The point nearest to a pixel; none beyond the ends of the curve.
function nearest(some, x) {
  if (!some.length || x < some[0].x - 12 || x > some[some.length - 1].x + 12) return null;
  return some.reduce((best, p) => (Math.abs(p.x - x) < Math.abs(best.x - x) ? p : best));
}

// Numbers as the tables of the page write them.
function number(value) {
  const size = Math.abs(value), rounded = Number(value.toPrecision(3));
  if (size >= 1e7 || (size > 0 && size < 1e-4)) {
    return rounded.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return size >= 999.5 ? Math.round(value).toLocaleString("en-US") : String(rounded);
}

function text(value, unit) {
  if (unit === "%") return (100 * value).toFixed(1).replace(/\.0$/, "") + " %";
  if (unit !== "B") return number(value);
  const k = value < 1 ? 0 : Math.min(5, Math.floor(Math.log10(value) / 3 + 1e-9));
  return number(value / 1000 ** k) + " " + ["B", "kB", "MB", "GB", "TB", "PB"][k];
}

// A range, with the unit once where both ends have the same.
function span(low, high, unit) {
  const [a, b] = [text(low, unit), text(high, unit)];
  const [digits, its] = a.split(" ");
  return low < high ? `${its && b.endsWith(" " + its) ? digits : a} to ${b}` : "";
}

// What the tooltip says at a pixel: a heading, and a row per curve, the topmost first.
function reading(view, frame, hidden, x) {
  const shown = view.curves.filter(curve => !hidden.has(curve.label)).map(curve =>
    ({curve, point: nearest(points(frame, curve), x)})).filter(one => one.point);
  if (!shown.length) return null;
  const away = one => Math.abs(one.point.x - x);
  const closest = shown.reduce((best, one) => (away(one) < away(best) ? one : best));
  const across = one => text(one.curve.x[one.point.k], view.x.unit);
  const rows = shown.sort((a, b) => a.point.y - b.point.y).map(one => {
    const {curve, point} = one, value = text(curve.y[point.k], view.y.unit);
    const range = curve.low ? span(curve.low[point.k], curve.high[point.k], view.y.unit) : "";
    const elsewhere = across(one) === across(closest) ? "" : `at ${across(one)}`;
    return {label: curve.label, colour: curve.colour, value, range, elsewhere, point};
  });
  return {heading: `${view.x.title}: ${across(closest)}`, x: closest.point.x, rows};
}

function start() {
  const charts = new Map(JSON.parse(document.getElementById("charts").textContent)
    .map(chart => [chart.id, chart]));
  const hidden = new Set();
  const make = (tag, parent, attributes = {}, words = "") => {
    const made = parent.appendChild(document.createElementNS(parent.namespaceURI, tag));
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = words;
    return made;
  };
  const frameOf = (chart, svg) =>
    chart.frames[[...svg.parentNode.children].indexOf(svg)][chart.view][chart.scale];

  const redraw = (chart, svg) => {
    const frame = frameOf(chart, svg), curves = svg.querySelector(".curves");
    svg.querySelector(".axes").innerHTML = frame.axes;
    curves.replaceChildren();
    const drawn = [...chart.views[chart.view].curves].reverse();
    for (const curve of drawn.filter(one => one.low)) {
      make("path", curves, {"data-label": curve.label, d: band(points(frame, curve)),
        fill: curve.colour, "fill-opacity": .18});
    }
    for (const curve of drawn) {
      const some = points(frame, curve), alone = some.length === 1;
      make("path", curves, {"data-label": curve.label, d: line(some), fill: "none",
        stroke: curve.colour, "stroke-dasharray": curve.dash, "stroke-linejoin": "round",
        "stroke-width": alone ? 6 : curve.width, "stroke-linecap": alone ? "round" : "butt"});
    }
    dim();
  };
  const dim = () => document.querySelectorAll(".curves [data-label]").forEach(group => {
    group.style.display = hidden.has(group.dataset.label) ? "none" : "";
  });

  // The tooltip: of a mark that has words of its own, or of all curves at the pointer.
  const tip = make("div", document.body, {id: "tip", role: "status", hidden: ""});
  for (const title of document.querySelectorAll("svg title")) {  // works without this script, too
    title.parentNode.dataset.tooltip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  const read = (chart, svg, event) => {
    const frame = frameOf(chart, svg), box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const found = reading(chart.views[chart.view], frame, hidden, x);
    if (!found) return false;
    const marks = make("g", svg, {class: "pointer"});
    make("path", marks, {class: "pl-l", d: `M${found.x} ${frame.y.start}V${frame.y.end}`});
    tip.replaceChildren();
    make("b", tip, {}, found.heading);
    const table = make("table", tip);
    for (const {label, colour, value, range, elsewhere, point} of found.rows) {
      make("circle", marks, {cx: point.x, cy: point.y, r: 4, fill: colour});
      const row = make("tr", table);
      make("i", make("td", row), {style: `background:${colour}`});
      for (const words of [label, value, range, elsewhere]) make("td", row, {}, words);
    }
    return true;
  };
  const look = event => {
    tip.hidden = true;
    document.querySelectorAll(".pointer").forEach(marks => marks.remove());
    const mark = event.target.closest("[data-tooltip]"), svg = event.target.closest(".plot > svg");
    if (mark) tip.textContent = mark.dataset.tooltip;
    else if (!svg || !read(charts.get(svg.parentNode.id), svg, event)) return;
    tip.hidden = false;
    const {width, height} = tip.getBoundingClientRect();
    const fit = (at, size, room) =>
      Math.max(4, at + 14 + size < room ? at + 14 : Math.min(at - 14 - size, room - size - 4));
    tip.style.left = `${fit(event.clientX, width, innerWidth)}px`;
    tip.style.top = `${fit(event.clientY, height, innerHeight)}px`;
  };
  document.addEventListener("pointermove", look);
  document.addEventListener("pointerdown", look);

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const label = button.dataset.label, shown = hidden.delete(label);
      if (!shown) hidden.add(label);
      button.setAttribute("aria-pressed", String(shown));
      dim();
    });
  }
  for (const group of document.querySelectorAll(".switch")) {  // sets view or scale of its charts
    group.addEventListener("click", event => {
      const chosen = event.target.closest("button");
      if (!chosen) return;
      for (const one of group.children) one.setAttribute("aria-pressed", String(one === chosen));
      for (const id of group.dataset.charts.split(" ")) {
        charts.get(id)[group.dataset.sets] = chosen.value;
        for (const svg of document.getElementById(id).children) redraw(charts.get(id), svg);
      }
    });
  }
  document.documentElement.classList.add("live");
}

if (typeof document !== "undefined") start();

"""The page's own style and script. They live in Python so that they travel with the package like any other code."""

__all__ = ["SCRIPT", "STYLE"]

STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #fff; --ink: #1c2126; --soft: #5d6873; --line: #dfe3e7;
  --grid: #e9ecef; --warn: #a04000; --tint: #f1f4f7; }
@media (prefers-color-scheme: dark) { :root { --page: #13161a; --card: #1a1e23; --ink: #e6e9ec; --soft: #9aa5b0;
  --line: #323940; --grid: #2a3037; --warn: #f0a35e; --tint: #232930; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 4rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 2.2rem 1.25rem 4rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.15rem); line-height: 1.2; letter-spacing: -.015em; margin: 0 0 .6rem;
  overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; letter-spacing: -.01em; margin: 3rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
.card h3 { margin: 0; }
p { max-width: 54rem; margin: .4rem 0; overflow-wrap: anywhere; }
.what, .caption, small, .versions, .cite { color: var(--soft); }
.caption, .versions { font-size: .9rem; }
.headline { margin: 1.4rem 0 0; padding: 1.1rem 1.3rem; background: var(--card); border: 1px solid var(--line);
  border-left: 5px solid #D55E00; border-radius: 8px; }
.headline p { font-size: 1.08rem; max-width: none; margin: .3rem 0; }
.headline p.caption { font-size: .88rem; margin-top: .6rem; }
.notes { margin: .9rem 0 0; padding: .7rem 1.3rem; border: 1px solid var(--line); border-left: 5px solid var(--warn);
  border-radius: 8px; font-size: .93rem; }
.notes ul { margin: .2rem 0; padding-left: 1.1rem; }
.legend { position: sticky; top: 0; z-index: 5; display: flex; flex-wrap: wrap; gap: .4rem; padding: .6rem 0;
  margin-top: 1.4rem; max-height: 6rem; overflow-y: auto; background: var(--page); border-bottom: 1px solid var(--line); }
button { font: inherit; font-size: .86rem; color: var(--ink); background: var(--card); border: 1px solid var(--line);
  padding: .22rem .7rem; cursor: pointer; }
button:focus-visible { outline: 2px solid #0072B2; outline-offset: 1px; }
.legend button { border-radius: 99px; max-width: 100%; overflow-wrap: anywhere; text-align: left; }
.legend button[aria-pressed=false] { opacity: .45; text-decoration: line-through; }
.ink { display: inline-block; width: .8em; height: .8em; border-radius: 3px; margin-right: .45em; vertical-align: -.05em; }
.switch { display: inline-flex; }
.switch button { margin-left: -1px; font-size: .8rem; padding: .12rem .6rem; }
.switch button:first-child { border-radius: 6px 0 0 6px; }
.switch button:last-child { border-radius: 0 6px 6px 0; }
.switch button[aria-pressed=true] { background: var(--ink); color: var(--card); border-color: var(--ink); }
.controls { display: flex; flex-wrap: wrap; gap: .4rem .8rem; align-items: center; margin: .9rem 0 .2rem;
  font-size: .86rem; }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(2, minmax(0, 1fr)); margin: .8rem 0; }
.charts.three { grid-template-columns: repeat(3, minmax(0, 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; min-width: 0;
  padding: .8rem .9rem .6rem; }
.card.wide { grid-column: 1 / -1; }
.card header { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: center; gap: .3rem .8rem;
  margin-bottom: .3rem; }
.plot { height: 340px; }
.wide .plot { height: 440px; }
.net .plot { height: 330px; }
.one .net, .one .sheet { max-width: 640px; }
.sheet svg { display: block; width: 100%; max-width: 440px; height: auto; margin: 0 auto; }
.ramp { display: flex; align-items: center; gap: .6rem; font-size: .86rem; color: var(--soft); flex-wrap: wrap; }
.ramp i { width: 180px; height: 11px; border-radius: 6px; }
.scroll { overflow-x: auto; margin: .7rem 0; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .75rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--grid); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--tint); font-weight: 600; font-size: .82rem; color: var(--soft); vertical-align: bottom; }
th:first-child { text-align: left; font-weight: 600; min-width: 8rem; max-width: 18rem; overflow-wrap: break-word;
  position: sticky; left: 0; background: var(--card); }
thead th:first-child { background: var(--tint); }
td, .reach thead th { white-space: nowrap; }
.words th:first-child { overflow-wrap: anywhere; width: 17rem; }
td small, th small { display: block; font-size: .8rem; font-weight: 400; }
.none { color: var(--soft); font-style: italic; }
.warn { color: var(--warn) !important; }
.theory thead th:last-child { text-align: left; }
.theory td:last-child { text-align: left; white-space: normal; min-width: 20rem; }
.words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.words thead th { text-align: left; }
details { margin: .8rem 0; }
summary { cursor: pointer; font-weight: 600; }
pre { overflow: auto; max-height: 30rem; padding: .9rem 1.1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; font-size: .82rem; line-height: 1.45;
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
li { margin: .4rem 0; max-width: 52rem; overflow-wrap: anywhere; }
@media (max-width: 820px) { .charts, .charts.three { grid-template-columns: minmax(0, 1fr); }
  main { padding: 1.2rem .8rem 3rem; } .plot, .wide .plot { height: 310px; } .card { padding: .6rem .5rem .4rem; }
  .headline { padding: .8rem .9rem; } .headline p { font-size: 1rem; }
  th, td { padding: .45rem .5rem; } h2 { margin-top: 2.2rem; } }
@media print { .legend { position: static; } .controls, .switch { display: none; } .card, .scroll { break-inside: avoid; } }
"""

SCRIPT = """
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const hidden = new Set();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 820px)");
  const pointer = matchMedia("(hover: hover)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A log axis cannot show what is not above zero: such points go, and so do they from the bands.
  const above = trace => {
    const keep = trace.x.map((x, k) => x > 0 ? k : -1).filter(k => k >= 0);
    const out = {...trace};
    for (const key of ["x", "y", "customdata"]) if (trace[key]) out[key] = keep.map(k => trace[key][k]);
    return out;
  };

  const themed = (axis, scale, values) => {
    const own = {gridcolor: colour("--grid"), linecolor: colour("--line"), zeroline: false, ticks: "outside",
      tickcolor: colour("--line"), ...axis, title: {...(axis.title || {}), font: {size: 12}, standoff: 8}};
    if (scale !== "log") return own;
    // Powers of ten, with 2 and 5 between them where there is room.
    const known = values.filter(v => v > 0);
    const decades = known.length ? Math.log10(Math.max(...known) / Math.min(...known)) : 1;
    const dtick = decades > (narrow.matches ? 1.5 : 2.7) ? 1 : "D2";
    return {...own, type: "log", dtick, minor: {ticks: "outside", ticklen: 3, tickcolor: colour("--line")}};
  };

  const draw = chart => {
    const figure = chart.views[chart.view];
    const log = chart.scale === "log";
    const shown = figure.data.filter(t => !hidden.has(t.meta)).map(t => log ? above(t) : t);
    const data = shown.map(t => t.type === "heatmap" && narrow.matches ? {...t, showscale: false} : t);
    const across = data.flatMap(t => t.x);
    const layout = {...figure.layout, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      modebar: {bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--ink")},
      font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--ink")},
      hoverlabel: {bgcolor: colour("--card"), bordercolor: colour("--line"), font: {color: colour("--ink")}},
      xaxis: themed(figure.layout.xaxis, chart.scale, across.filter(x => x >= (figure.start || 0))),
      yaxis: themed(figure.layout.yaxis, figure.layout.yaxis.type, data.flatMap(t => t.y || []))};
    if (log && figure.start > 0) {  // the flat part before anything happens is left out; a double click brings it back
      layout.xaxis.range = [Math.log10(figure.start), Math.log10(Math.max(...across)) + .02];
    }
    Plotly.react(chart.id, data, layout, {responsive: true, displaylogo: false,
      displayModeBar: pointer.matches ? "hover" : false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]});
  };
  const all = () => charts.forEach(draw);

  document.querySelectorAll(".legend button").forEach(button => button.addEventListener("click", () => {
    const label = button.dataset.label;
    hidden.has(label) ? hidden.delete(label) : hidden.add(label);
    button.setAttribute("aria-pressed", String(!hidden.has(label)));
    all();
  }));

  // A switch sets one property (view or scale) of the charts it names.
  document.querySelectorAll(".switch").forEach(group => group.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    group.querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", String(b === button)));
    const names = group.dataset.charts.split(" ");
    charts.filter(c => names.includes(c.id)).forEach(c => { c[group.dataset.sets] = button.value; draw(c); });
  }));

  dark.addEventListener("change", all);
  narrow.addEventListener("change", all);
  all();
})();
"""

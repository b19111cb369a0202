// SPDX-License-Identifier: Apache-2.0
//
// The page of `zipccl inspect`: draws what stands in the element #data. Names come from files of
// anybody: they go into the page as text nodes only.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const kFirstRows = 40;
const kLeastShare = 4e-4; // what a bar of any height shows
const kSvg = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

// ---- Small pieces ----

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const grouped = (value) => value.toLocaleString("en-US");
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const signed = (value) => (value < 0 ? `\u2212${-value}` : `${value}`);
const plural = (count, word) => `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return `${unit === 0 ? bytes : bytes.toPrecision(3)} ${units[unit]}`;
}

function timeText(seconds) {
  if (seconds >= 100) return `${grouped(Math.round(seconds))} s`;
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  if (seconds >= 1e-3) return `${(1e3 * seconds).toPrecision(3)} ms`;
  return `${(1e6 * seconds).toPrecision(3)} us`;
}

function small(value) {
  if (value === 0) return "0";
  const text = Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? String(Number(value.toPrecision(4)))
    : value.toExponential(3);
  return text.replace("-", "\u2212");
}

// ---- The head ----

function showHead() {
  const names = data.files.map((path) => path.slice(path.lastIndexOf("/") + 1));
  const title = names.length === 1 ? names[0] : plural(names.length, "file");
  document.title = `${title}: zipccl inspect`;
  $("title").textContent = title;
  if (data.bytes === 0) {
    $("lead").textContent = "There are no values in it.";
  } else {
    const ratio = data.bytes / data.wireBytes;
    $("lead").append(`${bytesText(data.bytes)} of values travel as ${bytesText(data.wireBytes)}: `,
      element("strong", {}, `${ratio.toFixed(2)} times`), " fewer bytes, and every bit arrives.");
  }
  let made = `${plural(data.tensorCount, "tensor")}, encoded by zipccl ${data.version} on ` +
    data.startedAt.replace("T", " at ").replace(/:\d\dZ$/, " UTC");
  if (data.leftOut > 0) made += `; ${grouped(data.leftOut)} left out by --match`;
  $("made").textContent = made;
}

// ---- The histogram ----

// What can be picked: the tensors of each datatype together, then tensors with a picture.
const choices = [
  ...data.groups.map((group) => ({ label: `All ${group.dtype} tensors`, item: group })),
  ...data.tensors.filter((tensor) => tensor.absolute)
    .map((tensor) => ({ label: `${tensor.name} (${tensor.dtype})`, item: tensor })),
];
let picked = choices.length === 0 ? null : choices[0].item;

/// Tensors of a datatype together have no picture but that of their tiles' windows.
function picture() {
  if (picked === null) return null;
  if (!picked.absolute) return picked.relative;
  return $("aligned").checked ? picked.relative : picked.absolute;
}

/// The bars: what stands apart as zero, then one for each exponent that anybody can see.
function barsOf(shown) {
  if (!shown) return [];
  const all = shown.counts.reduce((sum, count) => sum + count, shown.zeroField);
  const bar = (exponent, count, coded, escaped, expected) => ({ exponent, share: count / all, coded: coded / all,
    escaped: escaped / all, plain: (count - coded - escaped) / all, expected });
  const [low, size] = shown.window ?? [0, 0];
  const bars = shown.counts.map((count, index) => bar(shown.first + index, count, shown.coded[index],
    shown.escaped[index], shown.expected[index]));
  const isSeen = ({ exponent, share, expected }) =>
    (exponent >= low && exponent < low + size) || share > kLeastShare || expected > kLeastShare;
  const first = bars.findIndex(isSeen);
  const seen = first < 0 ? [] : bars.slice(Math.max(0, first - 1), bars.findLastIndex(isSeen) + 2);
  if (shown.zeroField / all > kLeastShare) {
    seen.unshift(bar(null, shown.zeroField, shown.codedZero, shown.escapedZero, shown.expectedZero));
  }
  return seen;
}

function niceStep(most, steps) {
  const rough = most / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

const barName = (bar) => (bar.exponent === null ? "0" : signed(bar.exponent));

function describe(shown, bars) {
  const coded = bars.reduce((sum, bar) => sum + bar.coded, 0);
  const peak = bars.reduce((best, bar) => (bar.share > best.share ? bar : best), bars[0]);
  const window = shown.window
    ? `The window is ${signed(shown.window[0])} to ${signed(shown.window[0] + shown.window[1] - 1)}. Codes name ` +
      `${percent(coded)} of all values.`
    : "No tile has a window.";
  return `Histogram of exponents. The most frequent is ${barName(peak)} with ${percent(peak.share)}. ${window}`;
}

function drawHistogram() {
  const place = $("histogram");
  const shown = picture();
  place.replaceChildren();
  const bars = barsOf(shown);
  if (bars.length === 0) {
    place.append(element("p", { className: "quiet" }, "No tile of it has a window of seven exponents."));
    return;
  }
  const width = Math.max(280, place.clientWidth);
  const height = width < 520 ? 270 : 340;
  const margin = { left: 44, right: 8, top: 34, bottom: 48 };
  const slot = (width - margin.left - margin.right) / bars.length;
  const most = Math.max(...bars.map((bar) => Math.max(bar.share, bar.expected)));
  const step = niceStep(most, 4);
  const top = Math.ceil(most / step + 1e-9) * step;
  const x = (index) => margin.left + index * slot;
  const y = (share) => height - margin.bottom - (share / top) * (height - margin.top - margin.bottom);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": describe(shown, bars) });

  const firstInside = shown.window ? bars.findIndex((bar) => bar.exponent === shown.window[0]) : -1;
  if (firstInside >= 0) {
    const size = shown.window[1];
    const word = shown.windowShare < 0.9 ? "most frequent window" : `window of ${size} exponents`;
    svg.append(shape("rect", { class: "band", x: x(firstInside), width: size * slot, y: margin.top - 26,
      height: height - margin.bottom - margin.top + 26 }));
    svg.append(shape("text", { class: "bandtext", x: x(firstInside) + size * slot / 2, y: margin.top - 10,
      "text-anchor": "middle" }, size * slot > 160 ? word : "window"));
  }
  for (let share = 0; share <= top + step / 2; share += step) {
    svg.append(shape("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(share),
      y2: y(share) }));
    svg.append(shape("text", { x: margin.left - 8, y: y(share) + 4, "text-anchor": "end" },
      `${Number((100 * share).toFixed(2))} %`));
  }
  const gap = Math.min(4, slot * 0.18);
  const widest = Math.max(...bars.map((bar) => barName(bar).length));
  const every = [1, 2, 4, 5, 10, 20].find((step) => step * slot > 7 * widest + 8) ?? 50;
  bars.forEach((bar, index) => {
    const group = shape("g", {});
    group.append(shape("title", {}, `${barName(bar)}: ${percent(bar.share, 2)}, a Gaussian has ` +
      percent(bar.expected, 2)));
    let below = 0;
    for (const [kind, share] of [["inside", bar.coded], ["outside", bar.escaped], ["plain", bar.plain]]) {
      if (share <= 0) continue;
      group.append(shape("rect", { class: kind, x: x(index) + gap / 2, width: slot - gap, y: y(below + share),
        height: y(below) - y(below + share) }));
      below += share;
    }
    svg.append(group);
    if (bar.exponent === null || bar.exponent % every === 0) {
      svg.append(shape("text", { x: x(index) + slot / 2, y: height - margin.bottom + 18,
        "text-anchor": "middle" }, barName(bar)));
    }
  });
  $("plain-key").hidden = bars.reduce((sum, bar) => sum + bar.plain, 0) < kLeastShare;
  const middles = bars.map((bar, index) => [x(index) + slot / 2, y(bar.expected)]);
  const curve = bars[0].exponent === null ? middles.slice(1) : middles;
  svg.append(shape("polyline", { class: "curve", points: curve.map((point) => point.join(",")).join(" ") }));
  for (const [cx, cy] of middles) {
    svg.append(shape("circle", { class: "dot", cx, cy, r: Math.min(3.5, slot / 4) }));
  }
  const isNarrow = width < 520;
  const axis = shown.isRelative
    ? (isNarrow ? "octaves from the tile's window on" : "octaves above the lowest exponent of the tile's own window")
    : (isNarrow ? "k, with |x| from 2^k to 2^(k+1)" : "exponent k of a value: |x| from 2^k to below 2^(k+1)");
  svg.append(shape("text", { x: margin.left + (width - margin.left - margin.right) / 2, y: height - 8,
    "text-anchor": "middle" }, axis));
  place.append(svg);
}

function table(place, heads, rows, foot) {
  const line = (tag, cells) => element("tr", {}, ...cells.map((cell, index) =>
    element(index === 0 && tag === "td" ? "th" : tag,
      index === 0 && tag === "td" ? { scope: "row" } : tag === "th" ? { scope: "col" } : {}, cell)));
  place.replaceChildren(element("thead", {}, line("th", heads)),
    element("tbody", {}, ...rows.map((row) => line("td", row))));
  if (foot) place.append(element("tfoot", {}, line("td", foot)));
}

function showFacts() {
  const shown = picture();
  const facts = picked === null ? [] : [
    ["values", grouped(picked.elements)],
    ["bits a value", picked.bits.toFixed(2)],
    ["ratio", picked.ratio.toFixed(3)],
    ["limit, bits", picked.limit.toFixed(2)],
    ["inside", picked.inside === null ? "-" : percent(picked.inside, 2)],
    ...(picked.sigma === undefined ? [] : [["sigma", small(picked.sigma)]]),
    ["tiles", grouped(picked.tiles)],
    ["raw, empty, zero code", [picked.raw, picked.empty, picked.zero].map(grouped).join(", ")],
    ...(picked.zstd === null ? [] : [["ratio of zstd -1", (picked.bytes / picked.zstd).toFixed(3)]]),
    ...(shown?.window && !shown.isRelative
      ? [["tiles with this window", percent(shown.windowShare)]] : []),
  ];
  $("facts").replaceChildren(...facts.map(([word, value]) =>
    element("div", {}, element("dt", {}, word), element("dd", {}, value))));
  table($("bins"), [shown?.isRelative ? "octave" : "exponent", "share", "Gaussian", "coded", "escapes",
    "as they are"], barsOf(shown).map((bar) => [barName(bar),
    ...[bar.share, bar.expected, bar.coded, bar.escaped, bar.plain].map((share) => percent(share, 3))]));
}

function pick(item) {
  picked = item;
  $("aligned-field").hidden = !item.absolute;
  $("picked").value = String(choices.findIndex((choice) => choice.item === item));
  drawHistogram();
  showFacts();
  for (const button of $("ratios").querySelectorAll("button")) {
    button.setAttribute("aria-current", String(button.item === item));
  }
}

// ---- Ratio by tensor ----

const encoded = data.tensors.filter((tensor) => tensor.encoded);
let showsAll = false;

const limitRatio = (tensor) => tensor.ratio * tensor.bits / tensor.limit;

const scale = (() => {
  const ratios = encoded.flatMap((tensor) => [tensor.ratio, limitRatio(tensor)]);
  const low = Math.min(1, ...ratios);
  const high = Math.max(1.5, ...ratios);
  const pad = 0.04 * (high - low);
  const from = low < 1 ? low - pad : 1 - pad;
  return { from, to: high + pad, at: (ratio) => `${100 * (ratio - from) / (high + pad - from)}%` };
})();

const orders = {
  size: (a, b) => b.bytes - a.bytes,
  low: (a, b) => a.ratio - b.ratio,
  high: (a, b) => b.ratio - a.ratio,
  name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
  given: () => 0,
};

function plotOf(tensor) {
  const isWorse = tensor.ratio < 1;
  const from = isWorse ? tensor.ratio : 1;
  const stem = element("span", { className: "stem" });
  stem.style.left = scale.at(from);
  stem.style.right = `calc(100% - ${scale.at(isWorse ? 1 : tensor.ratio)})`;
  const base = element("span", { className: "base" });
  base.style.left = scale.at(1);
  const mark = element("span", { className: "mark" });
  mark.style.left = scale.at(tensor.ratio);
  const limit = element("span", { className: "limit" });
  limit.style.left = scale.at(limitRatio(tensor));
  return element("span", { className: isWorse ? "plot worse" : "plot", ariaHidden: "true" }, base, limit, stem, mark);
}

function rowOf(tensor) {
  const row = element("span", { className: "row" },
    element("span", { className: "name" }, tensor.name), plotOf(tensor),
    element("span", { className: "ratio" }, tensor.ratio.toFixed(2)),
    element("span", { className: "size" }, `${tensor.dtype}, ${bytesText(tensor.bytes)}`));
  const button = element("button", { type: "button", title: `${tensor.name}, ${tensor.dtype}: ` +
    `${tensor.bits.toFixed(2)} bits a value, limit ${tensor.limit.toFixed(2)}` }, row);
  button.item = tensor;
  button.setAttribute("aria-current", String(tensor === picked));
  if (tensor.absolute) {
    button.addEventListener("click", () => {
      pick(tensor);
      $("exponents-title").scrollIntoView({ block: "start" });
    });
  }
  return element("li", {}, button);
}

function showRatios() {
  const wanted = $("filter").value.toLowerCase();
  const fitting = encoded.filter((tensor) => tensor.name.toLowerCase().includes(wanted))
    .sort(orders[$("sort").value]);
  const rows = showsAll ? fitting : fitting.slice(0, kFirstRows);
  $("ratios").replaceChildren(...rows.map(rowOf));
  $("shown").textContent = `${grouped(rows.length)} of ${plural(encoded.length, "tensor")}` +
    (data.leftOutOfPage > 0 ? `; ${grouped(data.leftOutOfPage)} smaller ones are in the totals only` : "");
  $("more").hidden = rows.length === fitting.length;
  $("more").textContent = `Show all ${grouped(fitting.length)}`;
}

function showAxis() {
  const step = niceStep(scale.to - scale.from, 7);
  const plot = element("span", { className: "plot" });
  for (let tick = Math.ceil(scale.from / step) * step; tick <= scale.to; tick += step) {
    const label = element("span", {}, String(Number(tick.toFixed(2))));
    label.style.left = scale.at(tick);
    plot.append(label);
  }
  $("axis").replaceChildren(element("span", { className: "name" }), plot,
    element("span", { className: "ratio" }, "ratio"), element("span", { className: "size" }, "values"));
}

function showRatioNote() {
  if (encoded.length === 0) {
    $("ratio-note").textContent = "No tensor of BF16, F16 or F32: nothing was encoded.";
    for (const id of ["tensor-controls", "axis", "shown", "more"]) $(id).hidden = true;
    return;
  }
  $("ratio-note").textContent = "Uncompressed bytes over those of a frame. The upright tick is where an ideal " +
    "coder of the exponents would be. A row shows its tensor in the picture above.";
}

// ---- Totals ----

function showTotals() {
  const cells = (total) => [plural(total.tensors, "tensor"), bytesText(total.bytes), bytesText(total.wireBytes),
    (total.bytes / Math.max(1, total.wireBytes)).toFixed(3)];
  const rows = data.totals.map((total) => [total.dtype, ...cells(total),
    total.encoded ? total.bits.toFixed(2) : "as they are", total.encoded ? total.limit.toFixed(2) : "-",
    total.encoded && total.inside !== null ? percent(total.inside, 2) : "-",
    total.zstd === null ? "-" : (total.bytes / Math.max(1, total.zstd)).toFixed(3)]);
  const all = { tensors: data.tensorCount, bytes: data.bytes, wireBytes: data.wireBytes };
  const heads = ["", "tensors", "values", "travel as", "ratio", "bits a value", "limit", "inside", "zstd -1"];
  const foot = ["all", ...cells(all), "", "", "", ""];
  // No column without a figure.
  const width = data.totals.some((total) => total.zstd !== null) ? heads.length : heads.length - 1;
  table($("totals"), heads.slice(0, width), rows.map((row) => row.slice(0, width)), foot.slice(0, width));
}

// ---- The all-gather ----

function showGather() {
  const gigabits = Number($("speed").value);
  const ranks = Math.floor(Number($("ranks").value));
  for (const button of $("presets").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(Number(button.value) === gigabits));
  }
  if (!(gigabits > 0 && ranks >= 2) || data.bytes === 0) {
    $("times").replaceChildren();
    $("verdict").textContent = "A speed above 0 and two ranks or more are needed.";
    return;
  }
  const bytesPerSecond = gigabits * 1e9 / 8;
  const share = (ranks - 1) / ranks;
  const native = data.bytes * share / bytesPerSecond;
  const compressed = data.wireBytes * share / bytesPerSecond;
  const most = Math.max(native, compressed);
  const bar = (word, seconds, className) => {
    const made = element("div", { className });
    made.style.width = `${100 * seconds / most}%`;
    return element("div", {}, element("div", { className: "what" }, element("span", {}, word),
      element("strong", {}, timeText(seconds))), made);
  };
  $("times").replaceChildren(bar("as it is", native, "bar"), bar("compressed", compressed, "bar less"));
  const saved = 1 - data.wireBytes / data.bytes;
  if (saved <= 0) {
    $("verdict").textContent = "These values do not compress: they would be sent as they are.";
    return;
  }
  // Each rank encodes its own part and decodes the others': all values pass the codec once.
  const least = bytesPerSecond / saved / share * 1e-9;
  $("verdict").textContent = `Each rank holds 1 / ${ranks} of these values and gets the rest over its link. ` +
    `That saves ${timeText(native - compressed)} each time, less what the codec takes: it pays from ` +
    `${least.toPrecision(3)} GB/s of values on, or at less where codec and link work at the same time. ` +
    "\"zipccl perf codec\" tells how fast it is on your machine.";
}

// ---- What the reader does ----

for (const [index, choice] of choices.entries()) {
  $("picked").append(element("option", { value: String(index) }, choice.label));
}
$("picked").addEventListener("change", () => pick(choices[Number($("picked").value)].item));
$("aligned").addEventListener("change", () => pick(picked));
$("filter").addEventListener("input", showRatios);
$("sort").addEventListener("change", showRatios);
$("more").addEventListener("click", () => {
  showsAll = true;
  showRatios();
});
for (const gigabits of [1, 10, 25, 100, 200, 400]) {
  const button = element("button", { type: "button", value: String(gigabits) }, `${gigabits} Gbit/s`);
  button.addEventListener("click", () => {
    $("speed").value = String(gigabits);
    showGather();
  });
  $("presets").append(button);
}
$("speed").addEventListener("input", showGather);
$("ranks").addEventListener("input", showGather);
let drawnWidth = 0;
new ResizeObserver(() => {
  if ($("histogram").clientWidth === drawnWidth) return;
  drawnWidth = $("histogram").clientWidth;
  drawHistogram();
}).observe($("histogram"));

showHead();
showRatioNote();
showAxis();
showRatios();
showTotals();
showGather();
if (picked !== null) pick(picked);
else drawHistogram();
document.documentElement.dataset.ready = "yes";

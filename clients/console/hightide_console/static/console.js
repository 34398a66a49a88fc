// What a browser does by itself: puts parts in their place as they come, draws the grid and the charts, copies
// commands, listens to keys. Everything it shows was decided by the console.

const body = document.body;
let paused = false;

// -- parts -------------------------------------------------------------------------------------------------

const shown = new Map();

function place(name, html) {
  const target = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
  if (!target || shown.get(name) === html) return;
  shown.set(name, html);
  const focused = target.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const template = document.createElement("template");
  template.innerHTML = html;
  target.replaceChildren(template.content);
  if (focused) target.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  if (name === "status") body.classList.toggle("stale", !!target.querySelector(".status.bad .since"));
}

function say(tone, word, sentence) {
  const line = document.createElement("div");
  line.className = `status ${tone}`;
  const strong = document.createElement("b");
  strong.textContent = word;
  const why = document.createElement("span");
  why.className = "why";
  why.textContent = sentence;
  line.append(strong, " ", why);
  shown.delete("status");
  document.querySelector("#status").replaceChildren(line);
  body.classList.add("stale");
}

// -- events ------------------------------------------------------------------------------------------------

const handlers = { parts: (parts) => Object.entries(parts).forEach(([name, html]) => place(name, html)) };

function follow(url) {
  let source = null;
  const open = () => {
    source = new EventSource(typeof url === "function" ? url() : url);
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (message) => { if (!paused || name === "parts") handle(JSON.parse(message.data)); });
    }
    source.onerror = () => {
      say("bad", "No news", "The console does not answer; this page goes on by itself when it does.");
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
    source.onopen = () => { shown.clear(); };
  };
  open();
  addEventListener("pagehide", () => source?.close());
}

// -- the grid ----------------------------------------------------------------------------------------------

const STATES = ["offline", "under min ISR", "under-replicated", "moving", "in sync"];
const LEADER_HUES = [205, 28, 160, 268, 48, 330, 185, 95, 0, 230, 130, 300];

function startGrid(box) {
  const canvas = box.querySelector("canvas");
  const said = document.querySelector("#grid-said");
  const legend = document.querySelector("#grid-legend");
  const grid = { version: -1, kinds: [], topics: [], rows: {} };
  let cells = [];   // [topic, partition, kind, lag], in the order drawn
  let columns = 1, size = 12, labels = 0, lines = [], places = new Uint32Array(), drawnWidth = 0;
  let chosen = -1, mode = "state", scale = 1, colours = null;

  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => ({
    dark: matchMedia("(prefers-color-scheme: dark)").matches, ink: tone("--ink"), line: tone("--line"),
    offline: tone("--bad-cell"), "under min ISR": tone("--bad-cell"), "under-replicated": tone("--warning-cell"),
    moving: tone("--info-cell"), "in sync": tone("--ok-cell"),
  });
  const leaderColour = (leader) => {
    if (leader < 0) return colours.offline;
    const hue = LEADER_HUES[leader % LEADER_HUES.length];
    return `hsl(${hue} ${colours.dark ? "38% 46%" : "46% 66%"})`;
  };
  const lagColour = (lag) => {
    if (!lag) return colours["in sync"];
    return lag < 100 ? colours.moving : lag < 10000 ? colours["under-replicated"] : colours.offline;
  };
  const colourOf = ([, , kind, lag]) => {
    const [state, leader] = grid.kinds[kind];
    return mode === "state" ? colours[state] : mode === "leader" ? leaderColour(leader) : lagColour(lag);
  };

  // Where each cell is. Few topics have a line each, with their names; many share the lines.
  function arrange() {
    cells = [];
    for (const topic of grid.topics) {
      const [kinds, lags] = grid.rows[topic];
      for (let at = 0; at < kinds.length; at++) cells.push([topic, at, kinds[at], lags[at] || 0]);
    }
    const width = Math.max(64, box.clientWidth);
    size = cells.length > 4000 ? 8 : cells.length > 1000 ? 11 : cells.length > 200 ? 14 : 18;
    labels = grid.topics.length <= 24 && cells.length <= 1500 ? Math.min(180, width * .35) : 0;
    columns = Math.max(1, Math.floor((width - labels) / size));
    lines = [];   // [first cell, number of cells]
    let first = 0;
    for (const count of labels ? grid.topics.map((topic) => grid.rows[topic][0].length) : [cells.length]) {
      for (let done = 0; done < count; done += columns) lines.push([first + done, Math.min(columns, count - done)]);
      first += count;
    }
    places = new Uint32Array(cells.length);
    lines.forEach(([start, count], line) => places.fill(line, start, start + count));
  }

  const placeOf = (at) => [labels + (at - lines[places[at]][0]) * size, places[at] * size];

  function drawCell(pen, at) {
    const cell = cells[at], inner = size - 1, [x, y] = placeOf(at);
    pen.fillStyle = colourOf(cell);
    pen.fillRect(x, y, inner, inner);
    const state = grid.kinds[cell[2]][0];
    if (state === "offline" && size > 5) {       // A shape beside the colour.
      pen.strokeStyle = "#fff"; pen.lineWidth = 1.2;
      pen.beginPath(); pen.moveTo(x + 2, y + 2); pen.lineTo(x + inner - 2, y + inner - 2);
      pen.moveTo(x + inner - 2, y + 2); pen.lineTo(x + 2, y + inner - 2); pen.stroke();
    } else if (state === "under min ISR" && size > 5) {
      pen.fillStyle = "#fff"; pen.fillRect(x + 2, y + inner / 2 - .8, inner - 4, 1.6);
    }
  }

  function draw() {
    colours = palette();
    arrange();
    const height = Math.max(1, lines.length) * size, width = Math.max(64, box.clientWidth);
    scale = Math.min(2, devicePixelRatio || 1);
    drawnWidth = width;
    canvas.width = width * scale; canvas.height = height * scale;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    if (labels) drawNames(pen);
    for (let at = 0; at < cells.length; at++) drawCell(pen, at);
    mark(pen);
    explain();
  }

  function drawNames(pen) {
    pen.font = "12.5px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.fillStyle = colours.ink;
    for (const [line, [first]] of lines.entries()) {
      const [topic, partition] = cells[first];
      if (partition) continue;
      let name = topic;
      while (name.length > 4 && pen.measureText(name).width > labels - 12) name = `${name.slice(0, -2).replace(/…$/, "")}…`;
      pen.fillText(name, 0, line * size + size / 2);
    }
  }

  function mark(pen) {
    if (chosen < 0 || chosen >= cells.length) return;
    const [x, y] = placeOf(chosen);
    pen.strokeStyle = colours.ink; pen.lineWidth = 2;
    pen.strokeRect(x + .5, y + .5, size - 2, size - 2);
  }

  function explain() {
    const counts = new Map();
    const name = ([, , kind, lag]) => {
      const [state, leader] = grid.kinds[kind];
      if (mode === "state") return state;
      if (mode === "leader") return leader < 0 ? "no leader" : `broker ${leader}`;
      return !lag ? "no lag" : lag < 100 ? "below 100" : lag < 10000 ? "below 10,000" : "10,000 and more";
    };
    for (const cell of cells) {
      const key = name(cell);
      const known = counts.get(key);
      if (known) known[0]++; else counts.set(key, [1, colourOf(cell)]);
    }
    const order = mode === "state" ? STATES : [...counts.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const items = order.filter((each) => counts.has(each)).slice(0, 16).map((each) => {
      const item = document.createElement("li"), [count, colour] = counts.get(each);
      const square = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      for (const side of ["width", "height"]) rect.setAttribute(side, "100%");
      rect.setAttribute("fill", colour); square.setAttribute("aria-hidden", "true"); square.append(rect);
      item.append(square, `${each} ${count.toLocaleString("en")}`);
      return item;
    });
    legend.replaceChildren(...items);
    box.dataset.cells = cells.length;
    box.dataset.version = grid.version;
    if (!cells.length && grid.version >= 0) said.textContent = "There is no partition yet.";
  }

  function choose(at) {
    if (at < 0 || at >= cells.length || at === chosen) return;
    const pen = canvas.getContext("2d"), before = chosen;
    chosen = at;
    if (before >= 0 && before < cells.length) {
      const [x, y] = placeOf(before);
      pen.clearRect(x, y, size, size);
      drawCell(pen, before);
    }
    mark(pen);
    const [topic, partition, kind, lag] = cells[at];
    const [state, leader, replicas, isr] = grid.kinds[kind];
    said.textContent = `${topic}-${partition}: ${state}; ${leader < 0 ? "no leader" : `leader ${leader}`}; replicas ${replicas.join(", ")}; in sync ${isr.join(", ") || "none"}${lag ? `; ${lag.toLocaleString("en")} records behind` : ""}`;
  }

  const at = (event) => {
    const area = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - area.left - labels) / size);
    const line = lines[Math.floor((event.clientY - area.top) / size)];
    return line && column >= 0 && column < line[1] ? line[0] + column : -1;
  };
  const beside = (key) => {
    if (chosen < 0) return 0;
    const line = places[chosen], column = chosen - lines[line][0];
    const other = lines[key === "ArrowDown" ? line + 1 : line - 1];
    switch (key) {
      case "ArrowRight": return Math.min(cells.length - 1, chosen + 1);
      case "ArrowLeft": return Math.max(0, chosen - 1);
      default: return other ? other[0] + Math.min(column, other[1] - 1) : chosen;
    }
  };
  const open = () => { if (cells[chosen]) location.href = `/topics/${encodeURIComponent(cells[chosen][0])}?page=${1 + Math.floor(cells[chosen][1] / 200)}`; };
  canvas.addEventListener("mousemove", (event) => choose(at(event)));
  canvas.addEventListener("click", (event) => { choose(at(event)); open(); });
  box.addEventListener("keydown", (event) => {
    if (["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      choose(beside(event.key));
      const y = cells.length ? placeOf(chosen)[1] : 0;
      if (y < box.scrollTop || y + size > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
    } else if (event.key === "Enter") open();
  });
  document.querySelector("#grid-modes").addEventListener("change", (event) => { mode = event.target.value; draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => { if (Math.max(64, box.clientWidth) !== drawnWidth) draw(); }).observe(box);

  async function load() {
    const answer = await fetch("/grid.json");
    if (!answer.ok) return;
    Object.assign(grid, await answer.json());
    draw();
    performance.mark("grid-drawn");
  }

  handlers.grid = (change) => {
    if (change.again || change.after !== grid.version) { load(); return; }
    grid.version = change.version;
    grid.kinds.push(...change.kinds);
    Object.assign(grid.rows, change.rows);
    if (change.topics) {
      grid.topics = change.topics;
      for (const name of Object.keys(grid.rows)) if (!change.topics.includes(name)) delete grid.rows[name];
    }
    draw();
  };
  return { load, version: () => grid.version };
}

// -- charts ------------------------------------------------------------------------------------------------

function chart(box, labels, data, digits) {
  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const strokes = ["--accent", "--warning-cell", "--info-cell", "--ok"];
  const number = (value) => value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits });
  const axis = { stroke: () => tone("--soft"), grid: { stroke: () => tone("--line"), width: 1 }, ticks: { show: false }, font: "11.5px system-ui" };
  const plot = new uPlot({
    width: Math.max(200, box.clientWidth), height: 140, cursor: { points: { size: 5 }, drag: { x: false } },
    legend: { live: true, markers: { width: 2 } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1e-3) * 1.1] } },
    series: [{ label: "at", value: "{HH}:{mm}:{ss}" }, ...labels.map((label, at) => ({ label, stroke: () => tone(strokes[at % strokes.length]), width: 1.5, value: (_, value) => number(value), spanGaps: false, points: { show: false } }))],
    axes: [{ ...axis, size: 24, space: 80, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en", { hour12: false })) }, { ...axis, size: 56, values: (_, ticks) => ticks.map(number) }],
  }, data, box);
  // While nobody points at the chart, its legend has the newest figures.
  let pointed = false;
  const newest = () => { if (!pointed && plot.data[0].length) plot.setLegend({ idx: plot.data[0].length - 1 }); };
  plot.over.addEventListener("mouseenter", () => { pointed = true; });
  plot.over.addEventListener("mouseleave", () => { pointed = false; newest(); });
  new ResizeObserver(() => { plot.setSize({ width: Math.max(200, box.clientWidth), height: 140 }); newest(); }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.redraw());
  newest();
  return (columns) => { plot.setData(columns); newest(); };
}

async function startTraffic() {
  const answer = await fetch("/traffic.json");
  if (!answer.ok || typeof uPlot === "undefined") return;
  const columns = await answer.json();
  const of = (...numbers) => numbers.map((number) => columns[number]);
  const records = chart(document.querySelector("#chart-records"), ["in", "out"], of(0, 1, 2), 0);
  const bytes = chart(document.querySelector("#chart-bytes"), ["in", "out"], of(0, 3, 4), 2);
  handlers.point = (point) => {
    if (columns[0].at(-1) === point[0]) return;
    columns.forEach((column, at) => { column.push(point[at]); if (column.length > 300) column.shift(); });
    records(of(0, 1, 2)); bytes(of(0, 3, 4));
  };
}

function startLag(box) {
  const data = JSON.parse(box.dataset.points);
  const draw = chart(box, ["lag"], data, 0);
  handlers.lag = (point) => {
    if (data[0].at(-1) === point[0]) return;
    data.forEach((column, at) => { column.push(point[at]); if (column.length > 300) column.shift(); });
    draw(data);
  };
}

// -- live tail ---------------------------------------------------------------------------------------------

function startTail(list) {
  const most = 200;
  let passedOver = 0;
  handlers.records = ({ html, skipped }) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    list.prepend(template.content);
    while (list.children.length > most) list.lastElementChild.remove();
    passedOver += skipped;
    document.querySelector("#tail-trouble").textContent = "";
    document.querySelector("#tail-passed").textContent = passedOver ? `${passedOver.toLocaleString("en")} were passed over: more come in than can be read.` : "";
  };
  handlers.tail = ({ sentence }) => { document.querySelector("#tail-trouble").textContent = sentence; };
}

// -- keys, copying, beginning ------------------------------------------------------------------------------

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const page = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
  if (page) page.click();
  else if (event.key === "/") { event.preventDefault(); document.querySelector("[data-search]")?.focus(); }
  else if (event.key === "?") document.querySelector("#keys").showModal();
  else if (event.key === "p") { paused = !paused; body.classList.toggle("paused", paused); document.querySelector("#tail-pause")?.setAttribute("aria-pressed", paused); }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) {
    await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent);
    button.textContent = "Copied";
  }
  if (event.target.closest("#tail-pause")) { paused = !paused; event.target.setAttribute("aria-pressed", paused); }
});

// A button that is pressed twice asks once. What is asked for takes a second or two, and the page says so.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.ariaBusy === "true") { event.preventDefault(); return; }
  form.ariaBusy = "true";
});
addEventListener("pageshow", () => { for (const form of document.forms) form.ariaBusy = null; });

async function begin() {
  const box = document.querySelector("#grid");
  let grid = null;
  if (box) { grid = startGrid(box); await grid.load(); }
  if (document.querySelector("#chart-records")) await startTraffic();
  const lag = document.querySelector("#chart-lag");
  if (lag) startLag(lag);
  const tail = document.querySelector("#tail");
  if (tail) startTail(tail);
  if (body.dataset.events) follow(() => grid ? `${body.dataset.events}?grid=${grid.version()}` : body.dataset.events);
}
begin();

// The script of the report: one function, nothing of which can be reached from outside. Text from the data goes
// into the page as text, never as markup.
(() => {
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const tasks = data.tasks;
const MODELS = { own: "Single-task", shared: "Shared", cluster: "Cluster model", served: "Served" };
const NARROW = matchMedia("(max-width: 700px)");

// What one part of the page tells the others: "theme", "cluster" and "task" are the names in use.
const clusterNames = new Map(data.clusters.map(({ number, name }) => [number, name]));
const listeners = new Map();

function listen(name, listener) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(listener);
}

function tell(name, value) {
  for (const listener of listeners.get(name) || []) listener(value);
}

// Elements, and how figures are written.

const SVG = "http://www.w3.org/2000/svg";
const SVG_NAMES = new Set(["svg", "line", "path", "rect"]);
const LONGEST_NAME = 72;
const LENGTH_OF_END = 16;

// Makes an element. Content is elements and texts; null is left out.
function make(name, attributes, ...content) {
  const made = SVG_NAMES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...content.filter((piece) => piece !== null && piece !== undefined));
  return made;
}

function shorten(name) {
  const letters = Array.from(name);
  if (letters.length <= LONGEST_NAME) return name;
  return letters.slice(0, LONGEST_NAME - LENGTH_OF_END - 1).join("") + "…" + letters.slice(-LENGTH_OF_END).join("");
}

function plain(number, digits) {
  return number.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits })
    .replace("-", "−").replace(/^−(0(?:\.0*)?)$/, "$1");
}

const count = (number) => plain(number, 0);
const percent = (share) => (share === undefined || share === null ? "–" : plain(100 * share, 1) + "\u00a0%");

function signed(number, digits) {
  const text = plain(number, digits);
  return number > 0 && !/^0(?:\.0*)?$/.test(text) ? "+" + text : text;
}

const points = (difference) => signed(100 * difference, 1);

// The 95 % interval of a difference; without one there is nothing to say.
function range(estimate, write) {
  return estimate[1] === null || estimate[2] === null ? "" : `[${write(estimate[1])}, ${write(estimate[2])}]`;
}

const tasksOf = (number) => (number === 1 ? "1 task" : count(number) + " tasks");
const namedCluster = (cluster) => (clusterNames.get(cluster) ? `${cluster}: ${clusterNames.get(cluster)}` : String(cluster));
const clusterOf = (cluster) => (cluster === undefined || cluster === null || cluster < 0 ? "no cluster" : `cluster ${cluster}`);

// What sharing did to a task, as far as its test rows can tell.
function stateOf(task) {
  if (task.harmed) return "harmed";
  if (!task.gain) return "unknown";
  return task.gain[1] !== null && task.gain[1] > 0 ? "gains" : "unclear";
}

// A name that opens the details of its task.
function link(place) {
  const name = tasks[place].name;
  const shown = shorten(name);
  const attributes = { type: "button", class: "link task", dir: "auto", onclick: () => tell("task", place) };
  if (shown !== name) attributes.title = name;
  return make("button", attributes, shown);
}

function copyButton(code) {
  const button = make("button", { type: "button", onclick: () => copy(code.textContent, button) }, "Copy");
  return button;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages from a disk may not reach the clipboard: the command is selected, for the keyboard.
    getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    if (!document.execCommand("copy")) return;
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

// One of several choices, as buttons that belong together; gives its element and a way to choose from outside.
function choices(title, name, options, chosen, choose) {
  const group = make("fieldset", { class: "choices" }, make("legend", { class: "unseen" }, title));
  const inputs = new Map();
  for (const [key, text] of options) {
    const id = `${name}-${key}`;
    const input = make("input", { type: "radio", name, id, value: key, onchange: () => choose(key) });
    input.checked = key === chosen;
    inputs.set(key, input);
    group.append(input, make("label", { for: id }, text));
  }
  return { group, set: (key) => { if (inputs.has(key)) inputs.get(key).checked = true; } };
}

// Matrices from the pictures of the page: PNG of 8-bit grey, level 0 where nothing was measured.
//
// Not read through a canvas: browsers that guard against being recognised give slightly wrong pixels there.

async function readLevels(name, isSymmetric) {
  const address = document.getElementById("picture-" + name).getAttribute("src");
  const text = atob(address.slice(address.indexOf(",") + 1));
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  const view = new DataView(bytes.buffer);
  const width = view.getUint32(16);
  const height = view.getUint32(20);
  const packed = [];
  // After the signature: chunks of a length, a kind, content and a checksum.
  for (let place = 8; place < bytes.length;) {
    const length = view.getUint32(place);
    const kind = text.slice(place + 4, place + 8);
    if (kind === "IDAT") packed.push(bytes.subarray(place + 8, place + 8 + length));
    place += length + 12;
  }
  const stream = new Blob(packed).stream().pipeThrough(new DecompressionStream("deflate"));
  const levels = undoFilters(new Uint8Array(await new Response(stream).arrayBuffer()), width, height);
  if (isSymmetric) mirror(levels, width);
  return levels;
}

// Every row begins with its filter: 0 is none, 2 is the difference to the row above.
function undoFilters(rows, width, height) {
  const levels = new Uint8Array(width * height);
  for (let row = 0; row < height; row++) {
    const from = row * (width + 1);
    const to = row * width;
    const above = rows[from] === 2 && row > 0;
    for (let column = 0; column < width; column++) {
      levels[to + column] = rows[from + 1 + column] + (above ? levels[to - width + column] : 0);
    }
  }
  return levels;
}

function mirror(levels, n) {
  for (let row = 0; row < n; row++) {
    for (let column = row + 1; column < n; column++) levels[row * n + column] = levels[column * n + row];
  }
}

// Colours of the matrices. Blue against orange is told apart by every kind of colour vision; the more a colour
// differs from the paper, the stronger what it says.

const STOPS = {
  signed: {
    light: ["#8a3b00", "#d9751a", "#f3b778", "#f0efec", "#86b7e0", "#2f78bd", "#083a75"],
    dark: ["#ffc388", "#e08a35", "#7a5030", "#343b44", "#2c5f92", "#4b97dc", "#b0dbff"],
  },
  rising: {
    light: ["#f3f5f7", "#d2e2f0", "#9cc3e4", "#5a9bd0", "#2b6fae", "#0f457f", "#062a55"],
    dark: ["#242a32", "#27435f", "#2c5f92", "#3c82c2", "#62a8e6", "#9ccdf8", "#e0f1ff"],
  },
};

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function parts(hex) {
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

// Gives the colour of a share from 0 to 1 along a palette: red, green and blue.
function along(palette, share) {
  const stops = STOPS[palette][isDark() ? "dark" : "light"];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const before = Math.min(Math.floor(place), stops.length - 2);
  const [from, to] = [parts(stops[before]), parts(stops[before + 1])];
  return from.map((value, index) => Math.round(value + (place - before) * (to[index] - value)));
}

// The colours of all 256 levels of a layer, red, green, blue and cover each; level 0 is clear.
function coloursOfLevels(layer) {
  const table = new Uint8ClampedArray(256 * 4);
  for (let level = 1; level < 256; level++) {
    const [low, high] = layer.domain;
    table.set([...along(layer.palette, (layer.value(level) - low) / (high - low)), 255], 4 * level);
  }
  return table;
}

// Text on a colour: dark or light, whichever is read better.
function inkOn([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#14181d" : "#ffffff";
}

// What is not measured is hatched, so that it is not taken for a value.
function hatch(context) {
  const tile = make("canvas", { width: 8, height: 8 });
  const pencil = tile.getContext("2d");
  pencil.strokeStyle = colour("soft");
  pencil.globalAlpha = 0.3;
  pencil.lineWidth = 1;
  for (const shift of [-8, 0, 8]) {
    pencil.moveTo(shift, 8);
    pencil.lineTo(shift + 8, 0);
  }
  pencil.stroke();
  return context.createPattern(tile, "repeat");
}

// Small plots of means with their 95 % intervals, as wide as there is room: places are in per cent.

const SHAPES = {
  own: "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
  shared: "M-3.2 -3.2H3.2V3.2H-3.2z",
  cluster: "M0 -4L4 3.2H-4z",
  served: "M0 -4.8L4.8 0L0 4.8L-4.8 0z",
};
const MARGIN = 3;

function placeOn(value, [low, high]) {
  const share = (Math.min(Math.max(value, low), high) - low) / (high - low);
  return (MARGIN + (100 - 2 * MARGIN) * share).toFixed(2) + "%";
}

// The accuracies of one task, a line each.
function drawStrip(accuracy, axis, height) {
  const kinds = Object.keys(MODELS).filter((kind) => accuracy && accuracy[kind]);
  if (!kinds.length) return make("span", { class: "soft" }, "no test rows");
  const said = kinds.map((kind) => `${MODELS[kind]} ${percent(accuracy[kind][0])}`).join(", ");
  const strip = make("svg", { class: "strip", role: "img", "aria-label": said, width: "100%", height: height * kinds.length });
  kinds.forEach((kind, row) => {
    const [mean, low, high] = accuracy[kind];
    const y = height * (row + 0.5);
    if (low !== null && high !== null) {
      strip.append(make("line", { class: "interval " + kind, x1: placeOn(low, axis), x2: placeOn(high, axis), y1: y, y2: y }));
    }
    const shape = make("path", { class: "shape " + kind, d: SHAPES[kind] });
    strip.append(make("svg", { x: placeOn(mean, axis), y, overflow: "visible" }, shape));
  });
  return strip;
}

// An axis in steps of a tenth, from the lowest accuracy of all tasks to one; intervals may go beyond.
const ACCURACY_AXIS = (() => {
  const means = tasks.flatMap((task) => Object.values(task.accuracy || {}).map(([mean]) => mean));
  const low = means.reduce((lowest, mean) => Math.min(lowest, mean), 0.8);
  return [Math.floor(low * 10) / 10, 1];
})();

// A matrix on a canvas that can be zoomed and moved: by wheel, fingers, buttons and keys.
//
// A model says what to draw: rows, columns, image (a canvas of one pixel a cell), groups of rows and columns
// (begin, end, title), names of both, how large a cell may be, and text(row, column), which is written into cells
// that are large enough.

const AXIS = 24;
const NAMES = 120;
const CELL_WITH_NAME = 8.5;  // a name of 9 pixels can still be read
const MOST_ZOOM = 60;

class Grid {
  constructor(canvas, { hover, choose }) {
    Object.assign(this, { canvas, hover, choose, model: null, zoom: 1, x: 0, y: 0, cell: null, fingers: new Map() });
    this.isAwake = false;
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  show(model) {
    this.model = model;
    this.cell = null;
    this.isPinned = false;
    this.fit();
  }

  fit() {
    Object.assign(this, { zoom: 1, x: 0, y: 0 });
    this.resize();
  }

  resize() {
    if (!this.model) return;
    const width = this.canvas.clientWidth;
    if (!width) return;
    this.width = width;
    const { left, top, size } = this.frame(1);
    // As high as it needs to be, at most as high as wide.
    this.height = Math.min(width, Math.ceil(top + size * this.model.rows) + 2);
    this.canvas.style.height = this.height + "px";
    const dots = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * dots);
    this.canvas.height = Math.round(this.height * dots);
    this.left = left;
    this.draw();
  }

  // Where the cells begin, and how large they are; names take room as soon as they can be read.
  frame(zoom = this.zoom) {
    const { rows, columns, names, largest } = this.model;
    const sizeWith = (margin) => Math.min((this.width - margin) / Math.max(rows, columns), largest) * zoom;
    const whole = Math.min(NAMES, this.width * 0.24, names ? names.longest : 0);
    // Small cells have small names, which need less room.
    const room = sizeWith(AXIS + whole) < 11 ? 0.78 * whole : whole;
    const named = names && sizeWith(AXIS + room) >= CELL_WITH_NAME;
    const margin = AXIS + (named ? room : 0);
    return { named, room, left: margin, top: margin, size: sizeWith(margin) };
  }

  clamp() {
    const { left, top, size } = this.frame();
    this.x = Math.min(Math.max(this.x, 0), Math.max(0, this.model.columns - (this.width - left) / size));
    this.y = Math.min(Math.max(this.y, 0), Math.max(0, this.model.rows - (this.height - top) / size));
    this.canvas.classList.toggle("zoomed", this.zoom > 1.01);
    this.canvas.dataset.zoom = this.zoom.toFixed(2);
  }

  zoomAt(px, py, factor) {
    const before = this.frame();
    const column = this.x + (px - before.left) / before.size;
    const row = this.y + (py - before.top) / before.size;
    const most = Math.max(1, Math.min(MOST_ZOOM, this.model.largest / this.frame(1).size));
    this.zoom = Math.min(Math.max(this.zoom * factor, 1), most);
    const after = this.frame();
    this.x = column - (px - after.left) / after.size;
    this.y = row - (py - after.top) / after.size;
    this.draw();
  }

  zoomBy(factor) {
    const { left, top, size } = this.frame();
    const [column, row] = this.cell ? [this.cell.column + 0.5, this.cell.row + 0.5] : [0, 0];
    const inside = this.cell && column > this.x && row > this.y;
    this.zoomAt(
      inside ? left + (column - this.x) * size : (this.width + left) / 2,
      inside ? top + (row - this.y) * size : (this.height + top) / 2,
      factor,
    );
  }

  moveBy(dx, dy) {
    const { size } = this.frame();
    this.x -= dx / size;
    this.y -= dy / size;
    this.draw();
  }

  cellAt(px, py) {
    const { left, top, size } = this.frame();
    const column = Math.floor(this.x + (px - left) / size);
    const row = Math.floor(this.y + (py - top) / size);
    const isInside = px >= left && py >= top && column < this.model.columns && row < this.model.rows;
    return isInside ? { row, column } : null;
  }

  select(cell, byKeys = false) {
    if (!cell || (this.cell && cell.row === this.cell.row && cell.column === this.cell.column)) return;
    this.cell = cell;
    if (byKeys) this.keepInView(cell);
    this.draw();
    this.hover(cell, byKeys);
  }

  keepInView({ row, column }) {
    const { left, top, size } = this.frame();
    const [wide, high] = [(this.width - left) / size, (this.height - top) / size];
    this.x = Math.min(Math.max(this.x, column + 1 - wide), column);
    this.y = Math.min(Math.max(this.y, row + 1 - high), row);
  }

  draw() {
    if (!this.model || !this.width) return;
    this.clamp();
    const dots = window.devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.fillStyle = colour("sheet");
    pen.fillRect(0, 0, this.width, this.height);
    const frame = this.frame();
    this.canvas.dataset.named = String(Boolean(frame.named));
    const right = Math.min(this.width, frame.left + (this.model.columns - this.x) * frame.size);
    const bottom = Math.min(this.height, frame.top + (this.model.rows - this.y) * frame.size);
    pen.save();
    pen.beginPath();
    pen.rect(frame.left, frame.top, right - frame.left, bottom - frame.top);
    pen.clip();
    this.drawCells(pen, frame);
    pen.restore();
    this.drawAxis(pen, frame, true);
    this.drawAxis(pen, frame, false);
    if (frame.named) this.drawNames(pen, frame);
  }

  drawCells(pen, { left, top, size }) {
    const { image, rows, columns } = this.model;
    pen.fillStyle = hatch(pen);
    pen.fillRect(left, top, this.width, this.height);
    pen.imageSmoothingEnabled = size * (window.devicePixelRatio || 1) < 1;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(image, left - this.x * size, top - this.y * size, columns * size, rows * size);
    if (size >= 15) this.writeCells(pen, { left, top, size });
    // Between blocks there is a gap; between the clusters of tasks, a line.
    pen.strokeStyle = colour(this.model.names ? "ink" : "sheet");
    pen.lineWidth = 1;
    pen.globalAlpha = this.model.names ? 0.55 : 1;
    pen.beginPath();
    for (const { begin } of this.model.rowGroups.slice(1)) {
      const y = Math.round(top + (begin - this.y) * size) + 0.5;
      pen.moveTo(left, y);
      pen.lineTo(this.width, y);
    }
    for (const { begin } of this.model.columnGroups.slice(1)) {
      const x = Math.round(left + (begin - this.x) * size) + 0.5;
      pen.moveTo(x, top);
      pen.lineTo(x, this.height);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    if (this.cell) {
      const [x, y] = [left + (this.cell.column - this.x) * size, top + (this.cell.row - this.y) * size];
      const extent = Math.max(size, 5);
      for (const [width, stroke] of [[5, colour("sheet")], [2.5, colour("ink")]]) {
        pen.lineWidth = width;
        pen.strokeStyle = stroke;
        pen.strokeRect(x, y, extent, extent);
      }
    }
  }

  // Figures and signs in cells: no colour is needed to read them.
  writeCells(pen, { left, top, size }) {
    pen.font = `${Math.min(14, Math.max(10, size / 3.4))}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const lastRow = Math.min(this.model.rows, Math.ceil(this.y + this.height / size));
    const lastColumn = Math.min(this.model.columns, Math.ceil(this.x + this.width / size));
    for (let row = Math.floor(this.y); row < lastRow; row++) {
      for (let column = Math.floor(this.x); column < lastColumn; column++) {
        const written = this.model.text(row, column, size);
        if (!written) continue;
        pen.fillStyle = inkOn(written.colour);
        pen.fillText(written.text, left + (column + 0.5 - this.x) * size, top + (row + 0.5 - this.y) * size);
      }
    }
  }

  // The axis of clusters: bands with the number of each, beside the rows or above the columns.
  drawAxis(pen, { left, top, size }, isRows) {
    const groups = isRows ? this.model.rowGroups : this.model.columnGroups;
    const [offset, start, end] = isRows ? [this.y, top, this.height] : [this.x, left, this.width];
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    groups.forEach((group, number) => {
      const from = Math.max(start, start + (group.begin - offset) * size);
      const to = Math.min(end, start + (group.end - offset) * size);
      if (to <= from) return;
      pen.fillStyle = colour(number % 2 ? "line" : "wash");
      const band = isRows ? [0, from, AXIS - 4, to - from] : [from, 0, to - from, AXIS - 4];
      pen.fillRect(...band);
      if (to - from < (isRows ? 13 : pen.measureText(group.title).width + 4)) return;
      pen.fillStyle = colour("ink");
      const middle = (from + to) / 2;
      pen.fillText(group.title, isRows ? (AXIS - 4) / 2 : middle, isRows ? middle : (AXIS - 4) / 2);
    });
  }

  drawNames(pen, { left, top, size, room }) {
    pen.font = `${Math.min(12, Math.max(9, Math.floor(size)))}px system-ui, sans-serif`;
    pen.fillStyle = colour("ink");
    pen.textBaseline = "middle";
    const visible = (offset, n, extent) => [Math.ceil(offset - 0.4), Math.min(n, Math.floor(offset + extent / size + 0.4))];
    pen.textAlign = "right";
    const [firstRow, lastRow] = visible(this.y, this.model.rows, this.height - top);
    for (let row = firstRow; row < lastRow; row++) {
      pen.fillText(cut(pen, this.model.names.row(row), room - 8), left - 6, top + (row + 0.5 - this.y) * size);
    }
    pen.textAlign = "left";
    const [firstColumn, lastColumn] = visible(this.x, this.model.columns, this.width - left);
    for (let column = firstColumn; column < lastColumn; column++) {
      pen.save();
      pen.translate(left + (column + 0.5 - this.x) * size, top - 6);
      pen.rotate(-Math.PI / 2);
      pen.fillText(cut(pen, this.model.names.column(column), room - 8), 0, 0);
      pen.restore();
    }
  }

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    // A wheel scrolls the page until the matrix was clicked: who only passes by is not caught.
    canvas.addEventListener("wheel", (event) => {
      if (!this.isAwake && !event.ctrlKey) return;
      event.preventDefault();
      this.zoomAt(...at(event), Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.isAwake = true;
      this.fingers.set(event.pointerId, at(event));
      this.moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.follow(event, at(event)));
    canvas.addEventListener("pointerup", (event) => {
      const isTap = this.fingers.size === 1 && this.moved < 6;
      this.fingers.delete(event.pointerId);
      if (!isTap) return;
      const cell = this.cellAt(...at(event));
      // A click holds the cell, so that the way to its readout does not change it.
      this.isPinned = Boolean(cell) && !(this.isPinned && this.cell.row === cell.row && this.cell.column === cell.column);
      this.select(cell);
      if (cell && event.pointerType === "mouse") this.choose(cell);
    });
    canvas.addEventListener("pointercancel", (event) => this.fingers.delete(event.pointerId));
    canvas.addEventListener("dblclick", (event) => this.zoomAt(...at(event), 2));
    canvas.addEventListener("blur", () => { this.isAwake = false; });
    canvas.addEventListener("keydown", (event) => this.press(event));
  }

  follow(event, place) {
    const before = this.fingers.get(event.pointerId);
    if (!before) {
      if (!this.isPinned) this.select(this.cellAt(...place));
      return;
    }
    const [dx, dy] = [place[0] - before[0], place[1] - before[1]];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.fingers.size === 2) {
      const [other] = [...this.fingers].filter(([id]) => id !== event.pointerId).map(([, where]) => where);
      const distance = (from) => Math.hypot(from[0] - other[0], from[1] - other[1]) || 1;
      this.zoomAt((place[0] + other[0]) / 2, (place[1] + other[1]) / 2, distance(place) / distance(before));
      this.moveBy(dx / 2, dy / 2);
    } else if (this.moved >= 6) {
      this.moveBy(dx, dy);
    }
    this.fingers.set(event.pointerId, place);
  }

  press(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const cell = this.cell || { row: 0, column: -1 };
    if (steps[event.key] && this.model) {
      const jump = event.shiftKey ? 10 : 1;
      const [down, right] = steps[event.key];
      const into = (value, n) => Math.min(Math.max(value, 0), n - 1);
      this.select({ row: into(cell.row + jump * down, this.model.rows), column: into(cell.column + jump * right, this.model.columns) }, true);
    } else if (event.key === "+" || event.key === "=") this.zoomBy(1.5);
    else if (event.key === "-") this.zoomBy(1 / 1.5);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && this.cell) this.choose(this.cell);
    else return;
    event.preventDefault();
  }
}

// Cuts a name on the canvas to the room there is; the readout has the whole of it.
function cut(pen, name, room) {
  const letters = Array.from(name.slice(0, 60));
  let text = letters.length < Array.from(name).length ? letters.join("") + "…" : name;
  while (letters.length > 1 && pen.measureText(text).width > room) {
    letters.pop();
    text = letters.join("") + "…";
  }
  return text;
}

// The four layers of the matrix: what was measured, what was made of it, and what follows for all pairs.

const NOT_MEASURED = "not measured";
const LAYERS = {
  measured: {
    title: "Measured",
    sentence: "What was measured: how much better a row's task serves a column's task than others do.",
    palette: "signed", domain: [-2.5, 2.5], ends: ["helps less than others", "average", "helps more"],
    write: (value) => signed(value, 1), absent: "not measured",
  },
  verdicts: {
    title: "Verdicts",
    sentence: "What each measured pair says by its own scores: probably of one group (+), or of two (−).",
    palette: "signed", domain: [-1.4, 1.4], ends: ["− two groups", "", "+ one group"],
    write: (value, size) => (size >= 34 && Math.abs(value) < 0.95 ? signed(value, 1) : value > 0.05 ? "+" : value < -0.05 ? "−" : "0"),
    absent: "not measured",
  },
  completed: {
    title: "Completed",
    sentence: "How alike all pairs are, computed from the measured ones, also for pairs that nobody measured [cosine in the leading directions of the completed matrix X].",
    palette: "signed", domain: [-1, 1], ends: ["−1: least alike", "", "1: the same"],
    write: (value) => plain(value, 2), absent: "not known",
  },
  errors: {
    title: "Outliers",
    sentence: "Scores that contradict all the others, and how far the robust loss clipped them, in standard deviations.",
    palette: "signed", domain: [-1, 1], ends: ["seemed worse", "", "seemed better"],
    write: (value) => signed(value, 1), absent: "nothing clipped",
  },
};

// The scores as they were measured: never drawn, only read out.
const RAW = {};

// Where the pictures are read, the levels of a layer; entry(row, column) is its value, or null.
async function readLayer(name) {
  const layer = LAYERS[name] || RAW;
  if (layer.levels) return layer;
  const { low, high, symmetric } = data.matrix.layers[name];
  const n = data.matrix.order.length;
  layer.value = (level) => low + ((level - 1) / 254) * (high - low);
  layer.entry = (row, column) => {
    const level = layer.levels[row * n + column];
    return level ? layer.value(level) : null;
  };
  layer.levels = await readLevels(name, symmetric);
  if (layer !== RAW) layer.blocks = averageBlocks(layer, n);
  return layer;
}

// The clusters as they stand in the matrix, one after the other.
const groups = data.matrix ? data.matrix.begins.map((begin, number) => {
  const end = data.matrix.begins[number + 1] ?? data.matrix.order.length;
  const cluster = tasks[data.matrix.order[begin]].cluster;
  return { begin, end, cluster, title: cluster === undefined ? "–" : String(cluster) };
}) : [];

// The mean of each block of two clusters, over the entries that are there, and how many these are.
function averageBlocks(layer, n) {
  const k = groups.length;
  const groupOf = new Uint16Array(n);
  groups.forEach(({ begin, end }, number) => groupOf.fill(number, begin, end));
  const sums = new Float64Array(k * k);
  const counts = new Uint32Array(k * k);
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const level = layer.levels[row * n + column];
      if (!level || row === column) continue;
      const block = groupOf[row] * k + groupOf[column];
      sums[block] += layer.value(level);
      counts[block]++;
    }
  }
  return { counts, mean: (row, column) => (counts[row * k + column] ? sums[row * k + column] / counts[row * k + column] : null) };
}

// Who helps whom: blocks of clusters first where there are many tasks, then the tasks of two of them.

const MANY_TASKS = 60;

function startMatrix() {
  const place = document.getElementById("matrix-view");
  if (!place || !data.matrix) return Promise.resolve();
  if (typeof DecompressionStream === "undefined") {
    place.append(make("p", { class: "note doubt" }, "This browser is too old to draw the matrix; all else is there."));
    return Promise.resolve();
  }
  const n = data.matrix.order.length;
  const hasBlocks = groups.length > 1;
  // The layer and what is shown of it: "blocks", "all", or the two clusters [from, to].
  const state = { layer: "measured", view: hasBlocks && n > MANY_TASKS ? "blocks" : "all" };

  const sentence = make("p", { class: "soft" });
  const canvas = make("canvas", {
    class: "matrix-canvas", tabindex: 0, role: "application", "aria-roledescription": "matrix",
    "aria-label": "Matrix of tasks: arrow keys move, plus and minus zoom, 0 shows all, Enter opens, Escape goes back",
  });
  const readout = make("div", { class: "readout" });
  const spoken = make("p", { class: "unseen", "aria-live": "polite" });
  const scale = make("div", { class: "scale" });
  const grid = new Grid(canvas, { hover: showCell, choose: openCell });
  const layerChoice = choices("What to show", "layer", Object.entries(LAYERS).map(([key, { title }]) => [key, title]), state.layer, (key) => change({ layer: key }));
  const views = hasBlocks ? [["blocks", "By cluster"], ["all", "Every task"]] : [["all", "Every task"]];
  const viewChoice = choices("How much to show", "view", views, state.view, (key) => change({ view: key }));
  const back = make("button", { type: "button", hidden: true, onclick: () => change({ view: "blocks" }) }, "← All clusters");
  const shown = make("span", { class: "soft", "aria-live": "polite" });
  const tool = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);

  place.append(
    make("div", { class: "matrix-bar" }, layerChoice.group, make("span", { class: "spring" }), hasBlocks ? viewChoice.group : null),
    sentence,
    make("div", { class: "matrix-body" },
      make("div", null,
        make("div", { class: "matrix-tools" },
          tool("+", "Zoom in", () => grid.zoomBy(1.6)), tool("−", "Zoom out", () => grid.zoomBy(1 / 1.6)),
          tool("Fit", "Show all", () => grid.fit()), back, shown),
        canvas),
      make("div", { class: "matrix-side" }, readout, scale, spoken,
        make("p", null, make("small", null, "Rows give, columns receive. Click to hold a cell; then the wheel zooms, and dragging moves. Two fingers zoom.")))),
  );
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && Array.isArray(state.view)) change({ view: "blocks" });
  });
  listen("theme", () => redraw());
  listen("cluster", (cluster) => {
    const number = groups.findIndex((group) => group.cluster === cluster);
    change({ view: cluster === null || number < 0 ? (hasBlocks && n > MANY_TASKS ? "blocks" : "all") : [number, number] });
  });

  async function change(what) {
    Object.assign(state, what);
    await readLayer(state.layer);
    if (!Array.isArray(state.view)) viewChoice.set(state.view);
    sentence.textContent = LAYERS[state.layer].sentence;
    back.hidden = !Array.isArray(state.view) || !hasBlocks;
    shown.textContent = describeView();
    if (what.layer && grid.model) redraw();
    else {
      grid.show(makeModel());
      showScale();
      showHint();
    }
  }

  // The same view in other colours: zoom, place and the chosen cell stay.
  function redraw() {
    if (!grid.model) return;
    grid.model = makeModel();
    showScale();
    grid.draw();
    if (grid.cell) showCell(grid.cell, false);
  }

  function describeView() {
    if (state.view === "blocks") return `${count(groups.length)} × ${count(groups.length)} blocks; a click shows their tasks.`;
    if (state.view === "all") return data.matrix.left_out ? `${tasksOf(n)}, evenly chosen; ${count(data.matrix.left_out)} more are not drawn.` : `${tasksOf(n)}.`;
    const [from, to] = state.view.map((number) => groups[number]);
    return from === to ? `Within ${fullName(from.cluster)}.` : `From ${clusterOf(from.cluster)} to ${clusterOf(to.cluster)}.`;
  }

  function makeModel() {
    const layer = LAYERS[state.layer];
    if (state.view === "blocks") return modelOfBlocks(layer);
    const [from, to] = state.view === "all" ? [{ begin: 0, end: n }, { begin: 0, end: n }] : state.view.map((number) => groups[number]);
    return modelOfTasks(layer, from, to);
  }

  function paint(rows, columns, levelColour) {
    const image = make("canvas", { width: columns, height: rows });
    const pen = image.getContext("2d");
    const pixels = pen.createImageData(columns, rows);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) levelColour(row, column, pixels.data, 4 * (row * columns + column));
    }
    pen.putImageData(pixels, 0, 0);
    return image;
  }

  const shade = (layer, value) => along(layer.palette, (value - layer.domain[0]) / (layer.domain[1] - layer.domain[0]));

  function modelOfBlocks(layer) {
    const k = groups.length;
    const bands = groups.map(({ title }, number) => ({ begin: number, end: number + 1, title }));
    const image = paint(k, k, (row, column, pixels, at) => {
      const mean = layer.blocks.mean(row, column);
      if (mean !== null) pixels.set([...shade(layer, mean), 255], at);
    });
    const text = (row, column, size) => {
      const mean = layer.blocks.mean(row, column);
      return mean === null || size < 30 ? null : { text: layer.write(mean, size), colour: shade(layer, mean) };
    };
    return { rows: k, columns: k, image, text, names: null, largest: 110, rowGroups: bands, columnGroups: bands };
  }

  function modelOfTasks(layer, from, to) {
    const table = coloursOfLevels(layer);
    const [rows, columns] = [from.end - from.begin, to.end - to.begin];
    const image = paint(rows, columns, (row, column, pixels, at) => {
      const level = 4 * layer.levels[(from.begin + row) * n + to.begin + column];
      for (let part = 0; part < 4; part++) pixels[at + part] = table[level + part];
    });
    const text = (row, column, size) => {
      const value = layer.entry(from.begin + row, to.begin + column);
      const isSign = state.layer === "verdicts";
      return value === null || (size < 30 && !isSign) ? null : { text: layer.write(value, size), colour: shade(layer, value) };
    };
    const bandsOf = (part) => groups.filter(({ begin, end }) => begin < part.end && end > part.begin)
      .map(({ begin, end, title }) => ({ begin: begin - part.begin, end: end - part.begin, title }));
    const name = (part) => (number) => tasks[data.matrix.order[part.begin + number]].name;
    const pen = image.getContext("2d");
    pen.font = "12px system-ui, sans-serif";
    const longest = 12 + Math.max(...data.matrix.order.map((task) => pen.measureText(tasks[task].name.slice(0, 40)).width));
    return { rows, columns, image, text, largest: 52, names: { row: name(from), column: name(to), longest }, rowGroups: bandsOf(from), columnGroups: bandsOf(to), from, to };
  }

  function showScale() {
    const layer = LAYERS[state.layer];
    const ramp = paint(1, 200, (_row, column, pixels, at) => pixels.set([...along(layer.palette, column / 199), 255], at));
    const none = make("canvas", { width: 22, height: 14 });
    const pen = none.getContext("2d");
    pen.fillStyle = hatch(pen);
    pen.fillRect(0, 0, 22, 14);
    scale.replaceChildren(
      ramp, make("div", { class: "ends" }, ...layer.ends.map((text) => make("span", null, text))),
      make("div", { class: "absent" }, none, layer.absent),
    );
  }

  function showHint() {
    readout.replaceChildren(make("p", { class: "soft" }, state.view === "blocks"
      ? "Point at a block or tap it to see two clusters, and open it to see their tasks."
      : "Point at a cell or tap it to see two tasks and what is known about them."));
  }

  function openCell({ row, column }) {
    if (state.view === "blocks") change({ view: [row, column] });
  }

  function showCell({ row, column }, byKeys) {
    if (state.view === "blocks") showBlock(row, column);
    else showPair(grid.model.from.begin + row, grid.model.to.begin + column);
    if (byKeys) spoken.textContent = readout.textContent;
  }

  const fullName = (cluster) => (cluster === undefined ? "no cluster" : `cluster ${namedCluster(cluster)}`);
  const fact = (title, text) => [make("dt", null, title), make("dd", null, text)];

  function showBlock(row, column) {
    const [from, to] = [groups[row], groups[column]];
    const facts = [];
    for (const [key, layer] of Object.entries(LAYERS)) {
      if (!layer.blocks) continue;
      const mean = layer.blocks.mean(row, column);
      const of = key === "completed" || mean === null ? "" : ` (${count(layer.blocks.counts[row * groups.length + column])} entries)`;
      facts.push(...fact(layer.title, mean === null ? layer.absent : (key === "completed" ? plain(mean, 2) : signed(mean, 2)) + of));
    }
    const who = (group) => make("b", null, `${fullName(group.cluster)}, ${tasksOf(group.end - group.begin)}`);
    readout.replaceChildren(
      make("div", { class: "ends-of-pair" }, make("span", { class: "soft" }, "From"), who(from), make("span", { class: "soft" }, "to"), who(to)),
      make("p", { class: "soft" }, make("small", null, "Means over the pairs of tasks")),
      make("dl", null, ...facts),
      make("button", { type: "button", onclick: () => change({ view: [row, column] }) }, "Show these tasks"),
    );
  }

  function showPair(row, column) {
    const [from, to] = [data.matrix.order[row], data.matrix.order[column]];
    const who = (task) => make("span", null, link(task), make("small", null, ` ${clusterOf(tasks[task].cluster)}`));
    const facts = [];
    if (LAYERS.measured.levels) facts.push(...fact("Measured", sayMeasured(row, column)));
    if (LAYERS.verdicts.levels) {
      const verdict = LAYERS.verdicts.entry(row, column);
      facts.push(...fact("By its scores", verdict !== null ? `${Math.round(50 * (verdict + 1))} % one group` : row === column ? "–" : isMeasured(row, column) ? "too few scores of the two to tell" : NOT_MEASURED));
    }
    if (LAYERS.completed.levels) {
      const value = LAYERS.completed.entry(row, column);
      facts.push(...fact("Similarity", value === null ? LAYERS.completed.absent : `about ${signed(value, 2)}, from −1 to 1`));
    }
    if (LAYERS.errors.levels) {
      const value = LAYERS.errors.entry(row, column);
      facts.push(...fact("Outlier", value === null ? "no" : `by about ${signed(value, 2)}`));
    }
    readout.replaceChildren(
      make("div", { class: "ends-of-pair" }, make("span", { class: "soft" }, "From"), who(from), make("span", { class: "soft" }, "to"), who(to)),
      make("dl", null, ...facts),
    );
  }

  // Whether one of the two directions of a pair was measured.
  const isMeasured = (row, column) => LAYERS.measured.entry(row, column) !== null || LAYERS.measured.entry(column, row) !== null;

  function sayMeasured(row, column) {
    const value = LAYERS.measured.entry(row, column);
    if (row === column) return "the task itself";
    if (value === null) return isMeasured(row, column) ? "only the other way round" : NOT_MEASURED;
    const raw = RAW.levels ? RAW.entry(row, column) : null;
    const kind = data.kind ? ` (${data.kind.replaceAll("_", " ")})` : "";
    const score = raw === null ? "" : `${raw.toLocaleString("en-GB", { maximumSignificantDigits: 3 }).replace("-", "−")}${kind}, `;
    return `about ${score}${signed(value, 1)} standard deviations from what others give this task`;
  }

  return change({}).then(() => {
    // The other layers are read once the page stands, for the readout.
    setTimeout(async () => {
      for (const name of [...Object.keys(LAYERS), "raw"]) await readLayer(name);
      document.documentElement.dataset.whole = "true";
    }, 50);
  });
}

// All about one task, in a window over the page.

function startDetails() {
  const dialog = document.getElementById("details");
  listen("task", show);
  // A click beside the window closes it.
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  function show(place) {
    const task = tasks[place];
    const close = make("button", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "Close");
    const title = make("h2", { id: "details-title", dir: "auto" }, task.name);
    dialog.replaceChildren(
      make("div", { class: "head" }, title, close),
      make("div", { class: "body" }, facts(task), accuracies(task), parts(task), confusion(task), nearest(task), sources(task), labels(task), command(task)),
    );
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  function facts(task) {
    const [train, valid, test] = task.rows;
    const entries = [
      ["Cluster", task.private ? "none: it is kept private" : task.out_of_cluster ? "none: it is like no cluster" : task.cluster === undefined ? "none" : namedCluster(task.cluster)],
      ["How sure", task.confidence === undefined ? null : percent(task.confidence)],
      ["Rows", `${count(train)} to learn from, ${count(valid)} to choose by, ${count(test)} to test on`],
      ["Labels", task.n_labels === undefined ? null : count(task.n_labels)],
      ["Sharing gives it", task.gain ? `${points(task.gain[0])} points ${range(task.gain, points)}` : "not known: it has no test rows"],
      ["Expected of sharing", task.expected ? `${points(task.expected[0])} points ${range(task.expected, points)}` : null],
      ["Added", task.added === undefined ? null : `in version ${task.added}`],
      ["Moved", task.moved ? `from ${clusterOf(task.moved.from)} to ${clusterOf(task.moved.to)} in version ${task.moved.version}` : null],
      [task.unlearned ? "Not learned" : "Why no cluster", task.private ? null : task.why_not ?? null],
    ];
    return make("dl", { class: "facts" }, ...entries.filter(([, text]) => text !== null)
      .flatMap(([key, text]) => [make("dt", null, key), make("dd", null, text)]));
  }

  function accuracies(task) {
    if (!task.accuracy) return null;
    const rows = Object.keys(MODELS).filter((kind) => task.accuracy[kind]).map((kind) => make("tr", null,
      make("th", { scope: "row" }, MODELS[kind]),
      make("td", { class: "plot" }, drawStrip({ [kind]: task.accuracy[kind] }, ACCURACY_AXIS, 20)),
      make("td", { class: "figure" }, percent(task.accuracy[kind][0])),
    ));
    const ends = make("div", { class: "ends" }, ...ACCURACY_AXIS.map((end) => make("span", null, plain(100 * end, 0) + " %")));
    rows.push(make("tr", { class: "axis", "aria-hidden": "true" }, make("td"), make("td", null, ends), make("td")));
    return make("div", { class: "means" }, make("h3", null, "Right on test rows, with 95 % intervals"), make("table", null, make("tbody", null, ...rows)));
  }

  // Right on texts that no other task learned from, and on those that another did; macro-F1 beside them.
  function parts(task) {
    const rows = [["Novel", task.novel], ["Seen in another task", task.seen]].filter(([, part]) => part).map(([title, part]) => make("tr", null,
      make("th", { scope: "row" }, `${title} (${count(part.n)})`),
      make("td", { class: "figure" }, part.own ? percent(part.own[0]) : "–"), make("td", { class: "figure" }, percent(part.served[0])),
      make("td", null, part.gain ? points(part.gain[0]) + " " : "–", part.gain ? make("span", { class: "interval-text" }, range(part.gain, points)) : null)));
    if (task.f1) {
      const [own, served] = task.f1;
      rows.push(make("tr", null, make("th", { scope: "row" }, "Macro-F1"), make("td", { class: "figure" }, percent(own)), make("td", { class: "figure" }, percent(served)),
        make("td", { class: "figure" }, own === null || served === null ? "–" : points(served - own))));
    }
    if (!rows.length) return null;
    const head = ["", "Single", "Served", "Gain in points"].map((title) => make("th", { scope: "col" }, title));
    return make("div", null, make("h3", null, task.seen ? "Novel texts, and texts seen elsewhere" : "All of its test texts are novel"), make("table", { class: "small-table" }, make("thead", null, make("tr", null, ...head)), make("tbody", null, ...rows)));
  }

  function confusion(task) {
    if (!task.confusion) return null;
    const rows = task.confusion.map(([label, predicted, number, of]) => make("tr", null,
      make("th", { scope: "row" }, make("bdi", null, shorten(label))), make("td", null, make("bdi", null, shorten(predicted))), make("td", { class: "figure" }, `${count(number)} of ${count(of)}`)));
    const head = ["Label", "taken for", "Rows"].map((title) => make("th", { scope: "col" }, title));
    return make("div", null, make("h3", null, "Labels that are confused most"), make("table", { class: "small-table" }, make("thead", null, make("tr", null, ...head)), make("tbody", null, ...rows)));
  }

  function nearest(task) {
    if (!task.nearest) return null;
    const list = task.nearest.map(([place, similarity]) => make("li", null, link(place), make("small", null, ` similarity ${plain(similarity, 2)}, ${clusterOf(tasks[place].cluster)}`)));
    return make("div", null, make("h3", null, "Most like it"), make("ul", null, ...list));
  }

  function sources(task) {
    if (!task.sources) return null;
    return make("div", { class: "note doubt" }, make("h3", null, "Sharing harms it; these serve it worst"), make("ul", null, ...task.sources.map((place) => make("li", null, link(place)))));
  }

  function labels(task) {
    const cluster = data.clusters.find(({ number }) => number === task.cluster);
    if (!cluster || !cluster.labels.length || task.private) return null;
    const list = cluster.labels.map(([label, number]) => make("li", null, `${shorten(label)} (${number})`));
    return make("div", null, make("h3", null, `Labels in its cluster, by the number of its ${tasksOf(cluster.size)}`), make("ul", { class: "chips" }, ...list));
  }

  function command(task) {
    // In single quotes a shell takes everything as it is, but the quote itself.
    const quoted = `'${task.name.replaceAll("'", "'\\''")}'`;
    const code = make("code", null, `robusttc explain ${data.place} --task=${quoted}`);
    return make("div", null, make("h3", null, "Why is it so?"), make("div", { class: "command" }, code, copyButton(code)));
  }
}

// What sharing gives every task, from the one that loses most to the one that gains most: all on one picture.

const GAINS = { harmed: "Harmed for sure", unclear: "No clear difference", gains: "Gains for sure" };

function startGains(place, choose) {
  const order = tasks.map((_, number) => number).filter((number) => tasks[number].gain)
    .sort((a, b) => tasks[a].gain[0] - tasks[b].gain[0]);
  if (order.length < 2) return { mark: () => {} };
  const counts = Object.keys(GAINS).map((state) => order.filter((number) => stateOf(tasks[number]) === state).length);
  const canvas = make("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "plot",
    "aria-label": `Gain of every task: ${Object.values(GAINS).map((text, number) => `${text}: ${counts[number]}`).join(", ")}. Left and right move, Enter opens.`,
  });
  const hint = "Each mark is a task: its served model over its own, in points, with the 95 % interval. Point at one or tap it to see its name.";
  const said = make("p", { class: "said soft", "aria-live": "polite" }, hint);
  const key = make("ul", { class: "legend" }, ...Object.entries(GAINS).map(([state, text], number) => {
    const sign = { harmed: "▼", unclear: "○", gains: "▲" }[state];
    return make("li", null, `${sign} ${text}: ${count(counts[number])}`);
  }));
  place.append(make("div", { class: "gains-plot" }, make("h3", null, "What sharing gives each task"), key, canvas, said));

  let current = -1;
  let isMarked = () => true;
  // Ends of the axis: nearly all intervals, so that a few wild tasks do not flatten the others.
  const end = (part, share) => {
    const found = order.map((number) => tasks[number].gain[part] ?? tasks[number].gain[0]).sort((a, b) => a - b);
    return found[Math.round(share * (found.length - 1))];
  };
  const [low, high] = [Math.min(-0.02, end(1, 0.01) - 0.005), Math.max(0.02, end(2, 0.99) + 0.005)];

  function draw() {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    const dots = window.devicePixelRatio || 1;
    canvas.width = width * dots;
    canvas.height = height * dots;
    const pen = canvas.getContext("2d");
    pen.scale(dots, dots);
    const y = (gain) => 8 + (height - 16) * (1 - (Math.min(Math.max(gain, low), high) - low) / (high - low));
    drawLines(pen, width, y);
    const paints = { harmed: colour("doubt"), unclear: colour("soft"), gains: colour("served") };
    order.forEach((number, rank) => drawTask(pen, number, xOf(rank), y, paints));
    if (current >= 0) {
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(xOf(current) - 6, y(tasks[order[current]].gain[0]) - 6, 12, 12);
    }
  }

  const LEFT = 44;
  const xOf = (rank) => LEFT + 8 + ((canvas.clientWidth - LEFT - 16) * (rank + 0.5)) / order.length;
  const rankAt = (x) => Math.min(Math.max(Math.floor(((x - LEFT - 8) / (canvas.clientWidth - LEFT - 16)) * order.length), 0), order.length - 1);

  function drawLines(pen, width, y) {
    const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((size) => (high - low) / size <= 6) || 1;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let line = Math.ceil(low / step); line * step <= high; line++) {
      pen.fillStyle = colour("soft");
      pen.fillText(signed(100 * line * step, 0), LEFT - 8, y(line * step));
      pen.fillStyle = colour(line === 0 ? "soft" : "line");
      pen.fillRect(LEFT, y(line * step), width - LEFT, line === 0 ? 1.5 : 1);
    }
  }

  function drawTask(pen, number, x, y, paints) {
    const task = tasks[number];
    const state = stateOf(task);
    pen.globalAlpha = isMarked(number) ? 1 : 0.12;
    pen.strokeStyle = pen.fillStyle = paints[state];
    const crowded = canvas.clientWidth / order.length < 6;
    if (task.gain[1] !== null && task.gain[2] !== null) {
      pen.lineWidth = crowded ? 0.6 : 1.6;
      pen.globalAlpha *= crowded ? 0.35 : 0.55;
      pen.beginPath();
      pen.moveTo(x, y(task.gain[1]));
      pen.lineTo(x, y(task.gain[2]));
      pen.stroke();
      pen.globalAlpha = isMarked(number) ? 1 : 0.12;
    }
    const size = crowded ? 1.6 : 4.2;
    const at = y(task.gain[0]);
    pen.beginPath();
    if (state === "unclear") pen.arc(x, at, size * 0.9, 0, 7);
    else {
      const up = state === "gains" ? -1 : 1;
      pen.moveTo(x - size, at - up * size * 0.7);
      pen.lineTo(x + size, at - up * size * 0.7);
      pen.lineTo(x, at + up * size);
      pen.closePath();
    }
    pen.lineWidth = 1.4;
    if (state === "unclear" && !crowded) pen.stroke();
    else pen.fill();
    pen.globalAlpha = 1;
  }

  function point(rank) {
    current = rank;
    draw();
    if (rank < 0) {
      said.replaceChildren(hint);
      return;
    }
    const task = tasks[order[rank]];
    said.replaceChildren(link(order[rank]), ` ${points(task.gain[0])} points ${range(task.gain, points)}, ${clusterOf(task.cluster)}`);
  }

  canvas.addEventListener("pointermove", (event) => point(rankAt(event.offsetX)));
  canvas.addEventListener("pointerdown", (event) => point(rankAt(event.offsetX)));
  // A finger covers many tasks: it points, and the name under the picture opens.
  canvas.addEventListener("pointerup", (event) => event.pointerType === "mouse" && choose(order[current]));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (step) point(Math.min(Math.max(current + step, 0), order.length - 1));
    else if (event.key === "Enter" && current >= 0) choose(order[current]);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(canvas);
  listen("theme", draw);
  return { mark: (test) => { isMarked = test; draw(); } };
}

// Every task: a table that sorts, searches and filters, a page at a time.

const COLUMNS = [
  { key: "name", title: "Task", of: (task) => task.name },
  { key: "cluster", title: "Cluster", of: (task) => task.cluster ?? Infinity, number: true },
  { key: "rows", title: "Rows", of: (task) => task.rows[0] + task.rows[1] + task.rows[2], number: true },
  { key: "plot", title: "Right on test rows" },
  ...Object.keys(MODELS).map((kind) => ({
    key: kind, title: MODELS[kind],
    of: (task) => (task.accuracy && task.accuracy[kind] ? task.accuracy[kind][0] : -Infinity), number: true, kind,
  })).map((column) => (column.key === "cluster" ? { ...column, key: "cluster-model" } : column)),
  { key: "gain", title: "Gain in points", of: (task) => (task.gain ? task.gain[0] : -Infinity), number: true },
];
const FILTERS = [
  ["all", "All tasks", () => true],
  ["gains", "Gain for sure", (task) => stateOf(task) === "gains"],
  ["harmed", "Harmed for sure", (task) => stateOf(task) === "harmed"],
  ["unclear", "No clear difference", (task) => stateOf(task) === "unclear"],
  ["unknown", "No test rows", (task) => !task.gain],
  ["private", "Private", (task) => task.private],
  ["alone", "In no cluster", (task) => task.cluster === undefined],
  ["added", "Added later", (task) => task.added !== undefined],
  ["moved", "Moved", (task) => task.moved],
  ["unlearned", "Not learned", (task) => task.unlearned],
];

// The table as CSV, as `robusttc report --csv` prints it. A name that a spreadsheet would take for a formula gets
// an apostrophe before it.
function writeCsv(numbers) {
  const share = (value) => (value === undefined || value === null ? "" : value.toFixed(4));
  const mean = (estimates, kind) => share(estimates && estimates[kind] && estimates[kind][0]);
  const yes = (value) => (value ? "yes" : "no");
  const columns = {
    task: (task) => task.name, cluster: (task) => task.cluster ?? "", cluster_name: (task) => clusterNames.get(task.cluster) ?? "",
    confidence: (task) => share(task.confidence), private: (task) => yes(task.private), learned: (task) => yes(!task.unlearned),
    labels: (task) => task.n_labels ?? "", train_rows: (task) => task.rows[0], valid_rows: (task) => task.rows[1], test_rows: (task) => task.rows[2],
    own: (task) => mean(task.accuracy, "own"), shared: (task) => mean(task.accuracy, "shared"),
    cluster_model: (task) => mean(task.accuracy, "cluster"), served: (task) => mean(task.accuracy, "served"),
    macro_f1_own: (task) => share(task.f1?.[0]), macro_f1_served: (task) => share(task.f1?.[1]),
    novel_rows: (task) => task.novel?.n ?? 0, novel_own: (task) => mean(task.novel, "own"), novel_served: (task) => mean(task.novel, "served"),
    seen_rows: (task) => task.seen?.n ?? 0, seen_own: (task) => mean(task.seen, "own"), seen_served: (task) => mean(task.seen, "served"),
    gain: (task) => share(task.gain?.[0]), gain_low: (task) => share(task.gain?.[1]), gain_high: (task) => share(task.gain?.[2]),
    harmed: (task) => yes(task.harmed),
  };
  const cell = (value) => {
    const text = typeof value === "string" && /^[=+@\t\r]|^-(?![\d.]+$)/.test(value) ? "'" + value : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = numbers.map((number) => Object.values(columns).map((of) => cell(of(tasks[number]))).join(","));
  return [Object.keys(columns).join(","), ...rows, ""].join("\n");
}

function save(numbers) {
  const address = URL.createObjectURL(new Blob([writeCsv(numbers)], { type: "text/csv" }));
  const anchor = make("a", { href: address, download: "tasks.csv" });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function startTasks() {
  const place = document.getElementById("task-table");
  const state = { sort: "gain", down: true, query: "", cluster: "", filter: "all", page: 0, isPrinted: false };
  const gains = startGains(place, (number) => tell("task", number));
  const collator = new Intl.Collator("en", { numeric: true });

  const search = make("input", { type: "search", id: "search", placeholder: "A part of a name", autocomplete: "off", oninput: () => change({ query: search.value }) });
  const filter = select("filter", FILTERS.filter(([key, , test]) => key === "all" || tasks.some(test)).map(([key, text, test]) => [key, key === "all" ? text : `${text} (${count(tasks.filter(test).length)})`]), (value) => change({ filter: value }));
  const cluster = select("cluster-filter", [["", "All clusters"], ...data.clusters.map(({ number, size }) => [String(number), `${namedCluster(number)} (${tasksOf(size)})`])], (value) => tell("cluster", value === "" ? null : Number(value)));
  const sort = select("sort", COLUMNS.filter((column) => column.of).flatMap(({ key, title }) => [[key + " down", title + ", high to low"], [key + " up", title + ", low to high"]]), (value) => change({ sort: value.split(" ")[0], down: value.endsWith("down") }));
  const found = make("p", { class: "soft", role: "status", "aria-live": "polite" });
  const body = make("tbody");
  const heads = new Map(COLUMNS.map((column) => [column.key, head(column)]));
  const before = make("button", { type: "button", onclick: () => turn(-1) }, "← Previous");
  const after = make("button", { type: "button", onclick: () => turn(1) }, "Next →");
  const where = make("span", { class: "soft" });
  const download = make("button", { type: "button", id: "download", onclick: () => save(choose().sort(compare)) }, "Download as CSV");
  const labelled = (text, field, kind) => make("div", { class: kind }, make("label", { for: field.id }, text), field);

  place.append(
    make("div", { class: "task-bar" }, labelled("Search", search), labelled("Show", filter), data.clusters.length > 1 ? labelled("Cluster", cluster) : null, labelled("Sort by", sort, "only-narrow")),
    make("div", { class: "found" }, found, place.querySelector(".legend")),
    make("div", { class: "scroll" }, make("table", { class: "tasks" }, make("caption", { class: "unseen" }, "Tasks and their accuracies"), make("thead", null, make("tr", null, ...heads.values())), body)),
    make("div", { class: "table-end" }, make("div", { class: "pages" }, before, where, after), download),
  );
  listen("cluster", (number) => {
    cluster.value = number === null ? "" : String(number);
    change({ cluster: cluster.value });
  });
  listen("print", (isPrinted) => {
    state.isPrinted = isPrinted;
    show();
  });

  function select(id, options, choose) {
    const field = make("select", { id, onchange: () => choose(field.value) }, ...options.map(([value, text]) => make("option", { value }, text)));
    return field;
  }

  function head({ key, title, of, number }) {
    const cell = make("th", { scope: "col", class: number ? "number" : key === "plot" ? "plot" : null });
    if (!of) {
      const ends = make("div", { class: "ends", "aria-hidden": "true" }, ...ACCURACY_AXIS.map((end) => make("span", null, plain(100 * end, 0) + " %")));
      cell.append(title, ends);
      return cell;
    }
    const button = make("button", { type: "button", onclick: () => change({ sort: key, down: state.sort === key ? !state.down : key !== "name" }) }, title, make("span", { class: "arrow", "aria-hidden": "true" }));
    cell.append(button);
    return cell;
  }

  function change(what) {
    Object.assign(state, { page: 0 }, what);
    show();
  }

  function turn(step) {
    state.page += step;
    show();
    place.querySelector(".task-bar").scrollIntoView({ block: "start" });
  }

  function choose() {
    const query = state.query.trim().toLowerCase();
    const [, , test] = FILTERS.find(([key]) => key === state.filter);
    return tasks.map((_, number) => number).filter((number) => {
      const task = tasks[number];
      return test(task) && (state.cluster === "" || task.cluster === Number(state.cluster)) && task.name.toLowerCase().includes(query);
    });
  }

  function compare(a, b) {
    const { of } = COLUMNS.find(({ key }) => key === state.sort);
    const [first, second] = [of(tasks[a]), of(tasks[b])];
    // What is not known comes last, whichever way.
    const isUnknown = (value) => value === Infinity || value === -Infinity;
    if (isUnknown(first) || isUnknown(second)) return isUnknown(first) - isUnknown(second) || a - b;
    const order = typeof first === "string" ? collator.compare(first, second) : first - second;
    return (state.down ? -order : order) || a - b;
  }

  function show() {
    const chosen = choose().sort(compare);
    const size = state.isPrinted ? Infinity : NARROW.matches ? 10 : 25;
    const pages = state.isPrinted ? 1 : Math.max(1, Math.ceil(chosen.length / size));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const begin = state.page ? state.page * size : 0;
    body.replaceChildren(...chosen.slice(begin, begin + size).map(row));
    found.textContent = chosen.length === tasks.length ? `${tasksOf(tasks.length)}.` : `${count(chosen.length)} of ${tasksOf(tasks.length)}.`;
    where.textContent = `Page ${count(state.page + 1)} of ${count(pages)}`;
    before.disabled = state.page === 0;
    after.disabled = state.page === pages - 1;
    before.parentElement.hidden = pages === 1;
    for (const [key, cell] of heads) {
      if (key === state.sort) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
      const arrow = cell.querySelector(".arrow");
      if (arrow) arrow.textContent = key === state.sort ? (state.down ? " ↓" : " ↑") : "";
    }
    sort.value = `${state.sort} ${state.down ? "down" : "up"}`;
    const all = new Set(chosen);
    gains.mark((number) => all.has(number));
    markCards();
  }

  function row(number) {
    const task = tasks[number];
    const cell = (title, ...content) => make("td", { class: "number", "data-title": title }, make("span", null, ...content));
    const short = (kind) => COLUMNS.find((column) => column.kind === kind).title.replace(" model", "");
    const name = make("th", { scope: "row" }, link(number));
    if (task.harmed) name.append(make("span", { class: "badge harmed" }, "▼ harmed"));
    if (task.private) name.append(make("span", { class: "badge" }, "private"));
    if (task.added !== undefined) name.append(make("span", { class: "badge" }, "added"));
    if (task.unlearned) name.append(make("span", { class: "badge" }, "not learned"));
    const gain = task.gain ? [make("b", null, points(task.gain[0])), " ", make("span", { class: "interval-text" }, range(task.gain, points))] : ["–"];
    const gained = cell("Gain in points", ...gain);
    gained.classList.add("wider");
    return make("tr", null, name,
      cell("Cluster", task.cluster === undefined ? "–" : String(task.cluster)),
      cell("Rows", count(task.rows[0] + task.rows[1] + task.rows[2])),
      make("td", { class: "plot" }, drawStrip(task.accuracy, ACCURACY_AXIS, 10)),
      ...Object.keys(MODELS).map((kind) => cell(short(kind), task.accuracy && task.accuracy[kind] ? percent(task.accuracy[kind][0]) : "–")),
      gained,
    );
  }

  function markCards() {
    for (const card of document.querySelectorAll(".cluster-card")) {
      const isChosen = card.dataset.cluster === state.cluster;
      card.classList.toggle("chosen", isChosen);
      card.querySelector("button.filter")?.setAttribute("aria-pressed", String(isChosen));
    }
  }

  show();
  NARROW.addEventListener("change", show);
}

// The page itself: its theme, its buttons, what is opened for print; and the start of all parts.

const FIRST_CARDS = NARROW.matches ? 4 : 9;

function startTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const keep = (value) => {
    // A page from a disk may have no memory.
    try {
      if (value) localStorage.setItem("robusttc-theme", value);
      return localStorage.getItem("robusttc-theme");
    } catch {
      return null;
    }
  };
  const known = keep();
  if (known === "light" || known === "dark") root.dataset.theme = known;
  const name = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    keep(root.dataset.theme);
    name();
    tell("theme");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { name(); tell("theme"); });
  name();
}

// What the templates wrote becomes alive: names open details, commands can be copied, cards filter.
function startPage() {
  const places = new Map(tasks.map((task, place) => [task.name, place]));
  for (const name of document.querySelectorAll("main [data-task]")) {
    const place = places.get(name.dataset.task);
    if (place !== undefined) name.replaceWith(link(place));
  }
  for (const code of document.querySelectorAll("main .command code")) code.after(copyButton(code));
  const cards = [...document.querySelectorAll(".cluster-card")];
  for (const card of cards) {
    const number = Number(card.dataset.cluster);
    const button = make("button", { type: "button", class: "filter", "aria-pressed": "false", onclick: () => {
      tell("cluster", button.getAttribute("aria-pressed") === "true" ? null : number);
    } }, "Show only this cluster");
    card.append(button);
  }
  if (cards.length > FIRST_CARDS) {
    const box = cards[0].parentElement;
    box.classList.add("folded");
    cards.slice(FIRST_CARDS).forEach((card) => card.classList.add("beyond"));
    const more = make("button", { type: "button", onclick: () => { box.classList.remove("folded"); more.remove(); } }, `Show all ${count(cards.length)} clusters`);
    box.after(more);
  }
}

function startContents() {
  const links = new Map([...document.querySelectorAll("nav a")].map((anchor) => [anchor.hash.slice(1), anchor]));
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      for (const anchor of links.values()) anchor.removeAttribute("aria-current");
      links.get(target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const part of document.querySelectorAll("main > section")) seen.observe(part);
}

function startPrint() {
  const root = document.documentElement;
  let opened = [];
  let theme;
  addEventListener("beforeprint", () => {
    // Paper is light; what is drawn on a canvas has to be drawn so before.
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((part) => { part.open = true; });
    tell("print", true);
    tell("theme");
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    opened.forEach((part) => { part.open = false; });
    tell("print", false);
    // At this moment the colours may still be those of paper.
    setTimeout(() => tell("theme"), 50);
  });
}

startTheme();
startPage();
startDetails();
startTasks();
startContents();
startPrint();
// What waits for the page looks at these: ready is when it can be used, whole is when all layers are read.
startMatrix().finally(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  if (!data.matrix) document.documentElement.dataset.whole = "true";
});
})();


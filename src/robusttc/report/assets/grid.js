// A matrix on a canvas that can be zoomed and moved: by wheel, fingers, buttons and keys.
//
// A model says what to draw: rows, columns, image (a canvas of one pixel a cell), groups of rows and columns
// (begin, end, title), names of both, how large a cell may be, and text(row, column), which is written into cells
// that are large enough.

const AXIS = 24;
const NAMES = 120;
const CELL_WITH_NAME = 13;
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
    const room = Math.min(NAMES, this.width * 0.24, names ? names.longest : 0);
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
    pen.font = "12px system-ui, sans-serif";
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

// Every task: a table that sorts, searches and filters, a page at a time.

const COLUMNS = [
  { key: "name", title: "Task", of: (task) => task.name },
  { key: "cluster", title: "Cluster", of: (task) => task.cluster ?? Infinity, number: true },
  { key: "rows", title: "Rows", of: (task) => task.rows[0] + task.rows[1] + task.rows[2], number: true },
  { key: "plot", title: "Right on test rows" },
  ...Object.keys(MODELS).map((kind) => ({
    key: kind, title: { own: "Own", shared: "Shared", cluster: "Cluster model", served: "Served" }[kind],
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

function startTasks() {
  const place = document.getElementById("task-table");
  const state = { sort: "gain", down: true, query: "", cluster: "", filter: "all", page: 0, isPrinted: false };
  const gains = startGains(place, (number) => tell("task", number));
  const collator = new Intl.Collator("en", { numeric: true });

  const search = make("input", { type: "search", id: "search", placeholder: "A part of a name", autocomplete: "off", oninput: () => change({ query: search.value }) });
  const filter = select("filter", FILTERS.filter(([key, , test]) => key === "all" || tasks.some(test)).map(([key, text, test]) => [key, key === "all" ? text : `${text} (${count(tasks.filter(test).length)})`]), (value) => change({ filter: value }));
  const cluster = select("cluster-filter", [["", "All clusters"], ...data.clusters.map(({ number, size }) => [String(number), `Cluster ${number} (${tasksOf(size)})`])], (value) => tell("cluster", value === "" ? null : Number(value)));
  const sort = select("sort", COLUMNS.filter((column) => column.of).flatMap(({ key, title }) => [[key + " down", title + ", high to low"], [key + " up", title + ", low to high"]]), (value) => change({ sort: value.split(" ")[0], down: value.endsWith("down") }));
  const found = make("p", { class: "soft", role: "status", "aria-live": "polite" });
  const body = make("tbody");
  const heads = new Map(COLUMNS.map((column) => [column.key, head(column)]));
  const before = make("button", { type: "button", onclick: () => turn(-1) }, "← Previous");
  const after = make("button", { type: "button", onclick: () => turn(1) }, "Next →");
  const where = make("span", { class: "soft" });
  const labelled = (text, field, kind) => make("div", { class: kind }, make("label", { for: field.id }, text), field);

  place.append(
    make("div", { class: "task-bar" }, labelled("Search", search), labelled("Show", filter), data.clusters.length > 1 ? labelled("Cluster", cluster) : null, labelled("Sort by", sort, "only-narrow")),
    make("div", { class: "found" }, found, place.querySelector(".legend")),
    make("div", { class: "scroll" }, make("table", { class: "tasks" }, make("caption", { class: "unseen" }, "Tasks and their accuracies"), make("thead", null, make("tr", null, ...heads.values())), body)),
    make("div", { class: "pages" }, before, where, after),
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

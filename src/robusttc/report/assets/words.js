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

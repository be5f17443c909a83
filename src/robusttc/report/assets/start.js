// The program of the report. Its files are put together to one function, which this one begins and end.js ends:
// nothing of it can be reached from outside. Text from the data goes into the page as text, never as markup.
(() => {
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const tasks = data.tasks;
const MODELS = { own: "Own model", shared: "Shared model", cluster: "Cluster model", served: "Served" };
const NARROW = matchMedia("(max-width: 700px)");

// What one part of the page tells the others: "theme", "cluster" and "task" are the names in use.
const listeners = new Map();

function listen(name, listener) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(listener);
}

function tell(name, value) {
  for (const listener of listeners.get(name) || []) listener(value);
}

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

// What Python wrote becomes alive: names open details, commands can be copied, cards filter.
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

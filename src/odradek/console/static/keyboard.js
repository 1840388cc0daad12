// The keyboard: g and a letter for a page, Ctrl-K for any name, / for the search, j and k for rows, ? for help.

const WAIT_MS = 1200;

export function keyboard(actions) {
  const help = document.getElementById("help");
  let going = 0;

  document.querySelector("[data-help]")?.addEventListener("click", () => help?.showModal());

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); actions.jump(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (Date.now() - going < WAIT_MS) {
      going = 0;
      const link = document.querySelector(`.rail [data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    switch (event.key) {
      case "g": going = Date.now(); break;
      case "/": {
        const field = document.querySelector("[data-search]");
        event.preventDefault();
        if (field) { field.focus(); field.select(); } else actions.jump(); // a page without a list
        break;
      }
      case "?": help?.showModal(); break;
      case "p": actions.pause(); break;
      case "j": row(1); break;
      case "k": row(-1); break;
    }
  });
}

// Rows have a link each; j and k move the focus from one to the next.
function row(step) {
  const links = [...document.querySelectorAll("main tbody tr")].map((each) => each.querySelector("a")).filter(Boolean);
  const at = links.indexOf(document.activeElement);
  links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
}

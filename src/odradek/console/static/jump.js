// Ctrl-K: type a part of the name of a page, broker, topic, group, connector or application; Enter goes there.

export function jumping(prefix) {
  const dialog = document.getElementById("jump");
  const field = dialog?.querySelector("input");
  const list = dialog?.querySelector("[role=listbox]");
  const said = dialog?.querySelector("[role=status]");
  if (!field) return () => {};
  let chosen = 0;
  let picked = null; // the address of the option that the arrow keys chose
  let asked = 0;
  let answered = null; // the text to which the list is the answer

  const options = () => [...list.children];

  function choose(at) {
    const all = options();
    chosen = all.length ? (at + all.length) % all.length : 0;
    all.forEach((each, number) => each.setAttribute("aria-selected", String(number === chosen)));
    if (all.length) field.setAttribute("aria-activedescendant", all[chosen].id);
    else field.removeAttribute("aria-activedescendant");
    all[chosen]?.scrollIntoView({ block: "nearest" });
  }

  function pick(at) {
    choose(at);
    picked = options()[chosen]?.dataset.href ?? null;
  }

  function show(places, text) {
    answered = list.dataset.answer = text;
    list.replaceChildren(...places.map((place, number) => {
      const option = document.createElement("li");
      option.id = `jump-${number}`;
      option.role = "option";
      option.dataset.href = place.href;
      const name = document.createElement("b");
      const kind = document.createElement("span");
      name.textContent = place.name;
      kind.textContent = place.kind;
      option.append(name, " ", kind);
      return option;
    }));
    said.textContent = places.length ? "" : "Nothing has this name.";
    // What the arrow keys chose stays chosen, wherever it is now.
    const at = places.findIndex((place) => place.href === picked);
    if (at < 0) picked = null;
    choose(Math.max(at, 0));
  }

  async function ask() {
    const number = ++asked;
    const text = field.value;
    try {
      const answer = await fetch(`${prefix}/jump?q=${encodeURIComponent(text)}`, { headers: { accept: "application/json" } });
      if (answer.status === 401) { location.href = `${prefix}/sign-in`; return false; } // the session has expired
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const places = await answer.json();
      if (number === asked) show(places, text);
      return number === asked;
    } catch {
      if (number === asked) said.textContent = "The console cannot be reached.";
      return false;
    }
  }

  const go = (option) => { if (option) location.href = option.dataset.href; };

  field.addEventListener("input", ask);
  field.addEventListener("keydown", async (event) => {
    if (event.key === "ArrowDown") pick(chosen + 1);
    else if (event.key === "ArrowUp") pick(chosen - 1);
    else if (event.key === "Enter") {
      event.preventDefault();
      if (answered === field.value) { go(options()[chosen]); return; }
      // What was typed last has not been answered yet. In its answer, a picked option may have another place.
      const href = picked;
      if (await ask()) go(options().find((each) => each.dataset.href === href) ?? options()[0]);
      return;
    } else return;
    event.preventDefault();
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));

  const open = () => {
    if (dialog.open) return;
    field.value = "";
    dialog.showModal();
    field.focus();
    ask();
  };
  document.querySelector("[data-jump]")?.addEventListener("click", open);
  return open;
}

// The list of topics: how many are marked, and the button that deletes them. Marks survive live updates.

const form = document.querySelector("[data-marks]");

function count() {
  const boxes = [...form.querySelectorAll("input[name=topic]")];
  const marked = boxes.filter((box) => box.checked).length;
  const line = form.querySelector(".marked");
  if (!line) return;
  line.hidden = marked === 0;
  line.querySelector("[data-marked]").textContent = marked === 1 ? "1 topic is marked." : `${marked} topics are marked.`;
  const all = form.querySelector("[data-mark-all]");
  all.checked = marked > 0 && marked === boxes.length;
  all.indeterminate = marked > 0 && marked < boxes.length;
}

form?.addEventListener("change", (event) => {
  if (event.target.matches("[data-mark-all]")) {
    for (const box of form.querySelectorAll("input[name=topic]")) box.checked = event.target.checked;
  }
  count();
});
if (form) { count(); document.addEventListener("refreshed", count); }

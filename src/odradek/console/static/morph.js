// Turns one element into another by changing only what differs, so that focus, selection and open details stay.

export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep")) return;
  attributes(old, fresh);
  children(old, fresh);
}

function attributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// Rows with an id are matched by it, everything else by its place.
function children(old, fresh) {
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const known = next.id ? named.get(next.id) : undefined;
    if (known && known !== place) {
      old.insertBefore(known, place);
      morph(known, next);
    } else if (place && !(place.id && !known) ) {
      const after = place.nextSibling;
      morph(place, next);
      place = after;
    } else if (place && !next.id && place.id) {
      old.insertBefore(document.importNode(next, true), place);
    } else {
      old.insertBefore(document.importNode(next, true), place);
    }
  }
  while (place) {
    const after = place.nextSibling;
    place.remove();
    place = after;
  }
}

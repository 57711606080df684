// Words on the canvas that are replaced while somebody may be typing there.

// How many characters two texts have in common, at their beginnings and at their ends.
export function commonEnds(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0, end = 0;
  while (start < most && before[start] === after[start]) start += 1;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return { start, end };
}

// Change the words of a text node. A cursor in front of the change, or behind it, stays there.
export function replaceWords(node, text) {
  const { start, end } = commonEnds(node.data, text);
  node.replaceData(start, node.data.length - start - end, text.slice(start, text.length - end));
}

// Replace the content of an element. If the cursor is in it, it goes behind what is different.
export function replaceContent(element, nodes) {
  const before = element.textContent, cursor = cursorIn(element);
  element.replaceChildren(...nodes);
  const after = element.textContent;
  if (cursor !== null) placeCursor(element, before === after ? cursor : after.length - commonEnds(before, after).end);
}

// The number of characters in front of the cursor; null if it is elsewhere.
function cursorIn(element) {
  const selection = element.ownerDocument.getSelection();
  if (!selection.rangeCount || !element.contains(selection.focusNode)) return null;
  const range = element.ownerDocument.createRange();
  range.setStart(element, 0);
  range.setEnd(selection.focusNode, selection.focusOffset);
  return range.toString().length;
}

function placeCursor(element, offset) {
  const words = element.ownerDocument.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let node = words.nextNode(), left = offset;
  while (node && left > node.data.length) {
    left -= node.data.length;
    node = words.nextNode();
  }
  element.ownerDocument.getSelection().collapse(node ?? element, node ? left : element.childNodes.length);
}

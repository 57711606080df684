// Words on the canvas that are replaced while someone may be typing there.

// How many characters two texts have in common, at their beginnings and at their ends.
export function commonEnds(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0, end = 0;
  while (start < most && before[start] === after[start]) start += 1;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return { start, end };
}

// Change the words of a text node. A cursor before the change, or after it, stays there.
export function replaceWords(node, text) {
  const { start, end } = commonEnds(node.data, text);
  node.replaceData(start, node.data.length - start - end, text.slice(start, text.length - end));
}

// Replace the content of an element. If the cursor is in it, it moves to the end of the change.
export function replaceContent(element, nodes) {
  const before = element.textContent, cursor = selectionIn(element)?.[1];
  element.replaceChildren(...nodes);
  const after = element.textContent;
  if (cursor === undefined) return;
  const place = before === after ? cursor : after.length - commonEnds(before, after).end;
  selectIn(element, [place, place]);
}

// How many characters of an element are before the beginning of the selection, and before the cursor;
// null if the cursor is elsewhere.
export function selectionIn(element) {
  const selection = element.ownerDocument.getSelection();
  if (!selection.rangeCount || !element.contains(selection.focusNode)) return null;
  const range = element.ownerDocument.createRange();
  return [[selection.anchorNode, selection.anchorOffset], [selection.focusNode, selection.focusOffset]].map((end) => {
    range.setStart(element, 0);
    range.setEnd(...(element.contains(end[0]) ? end : [selection.focusNode, selection.focusOffset]));
    return range.toString().length;
  });
}

export function selectIn(element, ends) {
  const [anchor, focus] = ends.map((offset) => placeIn(element, offset));
  element.ownerDocument.getSelection().setBaseAndExtent(...anchor, ...focus);
}

function placeIn(element, offset) {
  const words = element.ownerDocument.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let node = words.nextNode(), left = offset;
  while (node && left > node.data.length) {
    left -= node.data.length;
    node = words.nextNode();
  }
  return node ? [node, left] : [element, element.childNodes.length];
}

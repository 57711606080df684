// A message made of blocks: what is in it, where, and how it was before. Places are strings: "2" is
// the third block, "2-0-1" the second block in its first column, "2-0" that column, "" the message.

export const EMPTY = { version: 1, blocks: [] };
const MOST_STEPS = 200, TYPING_PAUSE = 1000;

export function parseDocument(text) {
  if (!text.trim()) return structuredClone(EMPTY);
  try {
    const found = JSON.parse(text);
    const isOne = found && found.version === 1 && Array.isArray(found.blocks);
    return isOne && found.blocks.every((each) => each && typeof each.type === "string") ? found : null;
  } catch {
    return null;
  }
}

// An empty document is an empty text, which is not a message yet.
export function writeDocument(doc) {
  const slots = Object.fromEntries(Object.entries(doc.slots ?? {}).filter(([, value]) => value));
  if (!doc.blocks.length && !Object.keys(slots).length) return "";
  const whole = { version: 1, blocks: doc.blocks };
  if (Object.keys(slots).length) whole.slots = slots;
  return JSON.stringify(whole, null, 2);
}

const steps = (place) => place.split("-").map(Number);

export function blocksIn(doc, container) {
  if (container === "") return doc.blocks;
  const [block, column] = steps(container);
  return doc.blocks[block]?.columns?.[column];
}

export function containerOf(place) {
  return place.includes("-") ? place.slice(0, place.lastIndexOf("-")) : "";
}

export function indexOf(place) {
  return steps(place).at(-1);
}

export function blockAt(doc, place) {
  return place === "" ? undefined : blocksIn(doc, containerOf(place))?.[indexOf(place)];
}

export function placeIn(container, index) {
  return container === "" ? String(index) : `${container}-${index}`;
}

// All blocks in the order of the message: [place, block].
export function* walk(doc) {
  for (const [number, block] of doc.blocks.entries()) {
    yield [String(number), block];
    for (const [column, inner] of (block.columns ?? []).entries()) {
      for (const [index, each] of inner.entries()) yield [`${number}-${column}-${index}`, each];
    }
  }
}

export function placeOf(doc, block) {
  for (const [place, each] of walk(doc)) if (each === block) return place;
  return "";
}

// Which block of a later document each block of an earlier one has become, after undo: an equal one, or
// one of the same kind in the same place.
export function matchBlocks(before, after) {
  const found = new Map(), left = new Map(walk(after)), old = new Map(walk(before));
  const match = (isSame) => {
    for (const [place, block] of old) {
      const there = isSame(place, block);
      if (there === undefined) continue;
      found.set(block, left.get(there));
      old.delete(place);
      left.delete(there);
    }
  };
  const isEqual = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  match((place, block) => (left.has(place) && isEqual(left.get(place), block) ? place : undefined));
  match((place, block) => [...left].find(([, each]) => isEqual(each, block))?.[0]);
  match((place, block) => (left.get(place)?.type === block.type ? place : undefined));
  return found;
}

export function insertBlock(doc, container, index, block) {
  blocksIn(doc, container).splice(index, 0, block);
  return placeIn(container, index);
}

export function removeBlock(doc, place) {
  return blocksIn(doc, containerOf(place)).splice(indexOf(place), 1)[0];
}

// Move a block to a container and an index, which count as before the move. Returns its new place.
export function moveBlock(doc, place, container, index) {
  const from = blocksIn(doc, containerOf(place)), to = blocksIn(doc, container);
  const [block] = from.splice(indexOf(place), 1);
  to.splice(from === to && indexOf(place) < index ? index - 1 : index, 0, block);
  return placeOf(doc, block);
}

// The steps that led here, for undo and redo. Typing in one field is one step until it pauses.
export class History {
  constructor(text) {
    this.steps = [text];
    this.at = 0;
    this.typing = "";
    this.typedAt = 0;
  }

  add(text, typing = "") {
    if (text === this.steps[this.at]) return;
    const now = Date.now();
    const isSame = typing && typing === this.typing && now - this.typedAt < TYPING_PAUSE && this.at > 0;
    this.steps.length = this.at + 1;
    if (isSame) this.steps[this.at] = text;
    else this.at = this.steps.push(text) - 1;
    if (this.steps.length > MOST_STEPS) { this.steps.shift(); this.at -= 1; }
    [this.typing, this.typedAt] = [typing, now];
  }

  get canUndo() { return this.at > 0; }
  get canRedo() { return this.at < this.steps.length - 1; }

  undo() { return this.go(-1); }
  redo() { return this.go(1); }

  go(by) {
    this.typing = "";
    this.at = Math.max(0, Math.min(this.steps.length - 1, this.at + by));
    return this.steps[this.at];
  }
}

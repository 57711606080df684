// Ctrl-Z undoes, Ctrl-Shift-Z and Ctrl-Y redo. Returns whether the key was one of these.
export function undoByKey(event, editor) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return false;
  const key = event.key.toLowerCase(), isRedo = key === "y" || (key === "z" && event.shiftKey);
  if (key !== "z" && !isRedo) return false;
  event.preventDefault();
  editor.undo(isRedo);
  return true;
}

// On a phone, the palette and the properties are sheets at the bottom of the screen.
export function offerSheets(root) {
  let opener = null;
  const close = () => {
    for (const sheet of root.querySelectorAll(".sheet.open")) sheet.classList.remove("open");
    opener?.focus();
    opener = null;
  };
  for (const button of root.querySelectorAll("[data-open]")) {
    button.addEventListener("click", () => {
      close();
      opener = button;
      const sheet = document.getElementById(button.dataset.open);
      sheet.classList.add("open");
      sheet.focus();
    });
  }
  for (const button of root.querySelectorAll(".sheet-close")) button.addEventListener("click", close);
  root.addEventListener("keydown", (event) => { if (event.key === "Escape" && event.target.closest(".sheet.open")) close(); });
  return { close };
}

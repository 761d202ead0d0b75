// Elements made with properties and text alone: names of kernels and files never pass as markup.

/** @typedef {Record<string, unknown>} Properties */

/**
 * Make an element. Properties: `class`, `data-*`, `aria-*`, `role`, `for`, `title` and the like
 * become attributes; `on` a table of listeners; anything else a property of the element.
 * @param {string} tag @param {Properties} [properties] @param {...(Node|string|null|undefined)} children
 * @returns {any}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(/** @type {any} */ (value))) made.addEventListener(event, listener);
    } else if (name === "css") {
      for (const [key, text] of Object.entries(/** @type {any} */ (value))) made.style.setProperty(key, text);
    } else if (name in made && !name.includes("-") && name !== "list") /** @type {any} */ (made)[name] = value;
    else made.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map(clean));
  return made;
}

/** Text without what a terminal or a reader would act on: control and direction characters show as signs.
 * @template T @param {T} child @returns {T} */
function clean(child) {
  return typeof child === "string" ? /** @type {any} */ (printable(child)) : child;
}

/** @param {string} text */
export function printable(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (sign) => String.fromCharCode(0x2400 + Math.min(sign.charCodeAt(0), 0x21)))
    .replace(/[\u0080-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** @param {Element} parent @param {...(Node|string)} children */
export function replace(parent, ...children) {
  parent.replaceChildren(...children.map(clean));
}

/** The element with an id, which the page has. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page lacks #${id}`);
  return found;
}

/** The section of a pane. @param {string} name @returns {HTMLElement} */
export function pane(name) {
  const found = document.querySelector(`section[data-pane="${name}"]`);
  if (!found) throw new Error(`the page lacks the pane ${name}`);
  return /** @type {HTMLElement} */ (found);
}

/** The part of a pane below its heading. @param {string} name @returns {HTMLElement} */
export function body(name) {
  return /** @type {HTMLElement} */ (pane(name).querySelector(".body"));
}

/** The part of a pane's heading that holds its controls. @param {string} name @returns {HTMLElement} */
export function controls(name) {
  return /** @type {HTMLElement} */ (pane(name).querySelector(".controls"));
}

/** Run a function once in the next frame, however often it is asked for. @param {(time: number) => void} work */
export function eachFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame((time) => { asked = false; work(time); });
  };
}

/** A list to choose from. @param {string} label @param {[string, string][]} choices value and text
 * @param {(value: string) => void} chosen */
export function chooser(label, choices, chosen) {
  const select = element("select", { "aria-label": label, title: label, on: { change: () => chosen(select.value) } },
    ...choices.map(([value, text]) => element("option", { value }, text)));
  return select;
}

/** A button that says whether it is pressed. @param {string} text @param {string} title
 * @param {boolean} pressed @param {(on: boolean) => void} turned */
export function toggle(text, title, pressed, turned) {
  const button = element("button", { type: "button", title, "aria-pressed": String(pressed), on: { click: () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    turned(on);
  } } }, text);
  return button;
}

/** A canvas of the size of its box in the pixels of the screen, and a context that draws in CSS pixels.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function fitCanvas(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const wide = Math.max(1, Math.round(width * scale)), high = Math.max(1, Math.round(height * scale));
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/** Put text on the clipboard; a page opened from disk may have to do it the old way. @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text, class: "offscreen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

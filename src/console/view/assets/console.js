// The console works without this script. With it, pages renew their parts in place, forms leave the page where it
// is, times are the viewer's, and keys do what the mouse does.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, is) => Object.assign(document.createElement(name), is);
  const html = document.documentElement;
  const TICK_FAILURES = 3, POLL_MS = 2000;

  // ---- What the server cannot know: the viewer's clock, and that a script runs ----
  function enhance(root) {
    for (const time of all("time[datetime]", root)) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const local = at.toLocaleString("sv-SE"), utc = at.toISOString().replace("T", " ").replace("Z", " UTC");
      if ("local" in time.dataset) time.textContent = local.slice(...time.dataset.local.split(","));
      time.title = "local" in time.dataset ? utc : `${local} here, ${utc}`;
    }
    for (const shy of all("[data-copy], [data-close], [data-all], [data-pause]", root)) shy.hidden = false;
  }

  // ---- Parts of a page are renewed in place: nodes stay, so focus, selection, boxes and scroll stay ----
  const keyOf = (node) => (node.nodeType === 1 && (node.dataset.key ?? node.id)) || null;
  const isOurs = (node) => node.nodeType === 1 && "own" in node.dataset;
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      return old.replaceWith(document.importNode(fresh, true));
    }
    if (old.nodeType !== 1) return old.data !== fresh.data && (old.data = fresh.data);
    // What somebody is about to confirm says what they saw.
    if (old.matches("[data-confirm][open]") || old.isEqualNode(fresh)) return;
    attributes(old, fresh);
    if (!old.matches("textarea, select")) children(old, fresh);
  }

  function attributes(old, fresh) {
    if (old === document.activeElement && old.matches("input, select, textarea")) return;
    const kept = old.classList.contains("at");
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "tabindex") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && name !== "checked" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (kept) old.classList.add("at");
  }

  function children(old, fresh) {
    if (old.matches("tbody[data-rows]")) return rows(old, fresh, "grow" in old.dataset);
    const olds = [...old.childNodes].filter((node) => !isOurs(node));
    const byKey = new Map(olds.filter(keyOf).map((node) => [keyOf(node), node]));
    let next = olds.shift();
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      const same = key ? byKey.get(key) : next && !keyOf(next) ? next : null;
      if (!same) old.insertBefore(document.importNode(child, true), next ?? null);
      else if (same === next) next = olds.shift();
      else old.insertBefore(olds.splice(olds.indexOf(same), 1)[0], next ?? null);
      if (same) morph(same, child);
    }
    for (; next; next = olds.shift()) next.remove();
  }

  // Rows under the pointer neither move nor vanish; new rows of long lists wait until they are asked for.
  function rows(old, fresh, wait) {
    const still = old.matches(":hover");
    const has = new Map([...old.rows].map((row) => [row.dataset.key, row]));
    const wanted = new Set([...fresh.rows].map((row) => row.dataset.key));
    const waiting = [...fresh.rows].filter((row) => !has.has(row.dataset.key));
    if (!still) for (const [key, row] of has) if (!wanted.has(key)) row.remove();
    let at = old.firstElementChild;
    for (const row of [...fresh.rows]) {
      const same = has.get(row.dataset.key);
      if (same) morph(same, row);
      if (still || wait) continue;
      const placed = same ?? document.importNode(row, true);
      if (placed === at) at = at.nextElementSibling;
      else old.insertBefore(placed, at);
    }
    more(old, fresh, wait ? waiting.length : 0);
  }

  function more(old, fresh, count) {
    const table = old.closest("table");
    let button = table.previousElementSibling;
    if (!button?.matches(".more[data-own]")) {
      if (!count) return;
      button = make("button", { type: "button", className: "more" });
      button.dataset.own = "";
      table.before(button);
    }
    if (!count) return button.remove();
    button.textContent = `${count} more`;
    button.onclick = () => (button.remove(), rows(old, fresh, false));
  }

  // A page that came by fetch: its parts, its message, its colours.
  function apply(page) {
    if (isNewer(page)) return;
    enhance(page);
    const focused = document.activeElement, selection = getSelection();
    for (const part of all("[data-part][id]")) {
      const fresh = page.getElementById(part.id);
      const marked = !selection.isCollapsed && part.contains(selection.anchorNode);
      if (fresh && !marked) morph(part, fresh);
    }
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
    const told = one("#message", page);
    if (told?.childElementCount) one("#message")?.replaceChildren(document.importNode(told.firstElementChild, true));
    html.dataset.theme = page.documentElement.dataset.theme ?? "";
    document.title = page.title;
    counts();
  }

  // Another version of the server answered: the whole page is fetched anew, once for each.
  function isNewer(page) {
    const script = (root) => one("script[src]", root)?.getAttribute("src");
    return script(page) && script(page) !== script(document) && reloadOnce(script(page));
  }

  function reloadOnce(why) {
    if (sessionStorage.getItem("delayd-reloaded") === why) return false;
    sessionStorage.setItem("delayd-reloaded", why);
    location.reload();
    return true;
  }

  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
  // ---- Live: a tick a second while somebody looks; polling where ticks do not get through ----
  let stream, timer, failures = 0, paused = false, busy = false, sent = "", version = "";
  async function refresh(number = "") {
    if (busy || paused) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { "x-delayd-parts": `${number}.${version}` }, cache: "no-store" });
      // Logged out, or gone: the page itself says so.
      if (new URL(answer.url).pathname !== location.pathname || answer.status === 401) return location.reload();
      if (answer.ok && !paused) apply(parsed(await whole(answer)));
      said(answer.ok ? "Live" : "Waiting");
    } catch {
      said("Offline");
    }
    busy = false;
  }

  // Of tags that were sent before only their places are sent.
  async function whole(answer) {
    let text = await answer.text(), had = sent.split(/(?=<)/), at = 0;
    const piece = (part) => (typeof part === "string" ? part : had.slice((at += part[0]), (at += part[1])).join(""));
    version = answer.headers.get("x-delayd-version");
    return (sent = answer.status === 226 ? JSON.parse(text).map(piece).join("") : text);
  }

  function watch() {
    stream = (clearTimeout(timer), stream?.close());
    if (!one("main[data-live]") || paused || document.visibilityState !== "visible") return;
    if (failures >= TICK_FAILURES) return (timer = setTimeout(() => refresh().finally(watch), POLL_MS));
    stream = new EventSource("/live");
    stream.addEventListener("tick", (tick) => ((failures = 0), refresh(tick.data)));
    stream.onerror = () => {
      failures += 1;
      stream?.close();
      said("Waiting");
      timer = setTimeout(watch, 500 * failures);
    };
  }

  const said = (word) => (html.classList.toggle("stale", word !== "Live"),
    all("[data-pause]").forEach((button) => (button.textContent = paused ? "Paused" : word)));

  const pause = () => ((paused = !paused), said("Live"), watch());

  // ---- Forms that leave the page where it is ----
  async function send(form, submitter) {
    if (form.ariaBusy === "true") return;
    form.ariaBusy = "true";
    // What the button itself says goes along in either way.
    const { name = "", value = "" } = submitter ?? {};
    if (name) form.append(make("input", { type: "hidden", name, value }));
    const tell = (text) => one("#message").replaceChildren(make("p", { className: "refused", textContent: text }));
    try {
      const headers = { "x-delayd-token": html.dataset.token ?? "", "x-delayd-parts": "1" };
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers });
      const page = parsed(await answer.text());
      const told = one("#message", page)?.childElementCount;
      if (!answer.ok && !told) return tell(one("main h1 + p", page)?.textContent ?? `Refused: ${answer.status}`);
      if (answer.ok && new URL(answer.url).pathname !== location.pathname) return location.assign(answer.url);
      form.closest("[data-confirm]")?.removeAttribute("open");
      for (const box of all(`input[type=checkbox][form="${form.id}"]`)) box.checked = false;
      apply(page);
    } catch {
      tell("There was no answer, so it may have been done or not. Load the page again before you repeat it.");
    } finally {
      form.ariaBusy = null;
      if (name) form.lastChild.remove();
    }
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-quiet]")) return;
    event.preventDefault();
    send(event.target, event.submitter);
  });

  // ---- Dialogs, boxes, copies ----
  const dialog = () => one("[data-confirm][open]");
  const close = (open) => (open.removeAttribute("open"), one("form", open).reset(), one("summary", open).focus());
  const focusIn = (open) => one("input:not([type=hidden]), button", open)?.focus();
  document.addEventListener("toggle", (event) => {
    if (!event.target.matches?.("[data-confirm][open]")) return;
    const form = one("form", event.target);
    Object.assign(form, { role: "dialog", ariaLabel: one("summary", event.target).textContent });
    focusIn(form);
  }, true);
  document.addEventListener("focusin", (event) => {
    const open = dialog();
    if (open && !open.contains(event.target)) focusIn(one("form", open));
  });
  document.addEventListener("click", (event) => {
    const open = dialog();
    if (open && (event.target === open || event.target.closest("[data-close]"))) close(open);
    if (event.target.closest("[data-pause]")) pause();
    const button = event.target.closest("[data-copy]");
    if (button) copy(button, one(button.dataset.copy || "code", button.dataset.copy ? document : button.parentNode));
  });
  document.addEventListener("change", (event) => {
    const form = event.target.dataset?.all;
    if (form) for (const box of all(`input[name=selected][form="${form}"]`)) box.checked = event.target.checked;
    counts();
  });

  function counts() {
    for (const count of all("[data-count]")) {
      const checked = all(`input[name=selected][form="${count.dataset.count}"]:checked`).length;
      count.textContent = `${checked.toLocaleString("en")} selected`;
      for (const button of all(`#${count.dataset.count} [data-selection]`)) button.disabled = !checked;
    }
  }

  async function copy(button, from) {
    try {
      await navigator.clipboard.writeText(from.textContent);
    } catch {
      // Pages of plain http from another machine have no clipboard.
      getSelection().selectAllChildren(from);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }

  // ---- Keys ----
  const PLACES = { o: "/", q: "/queues", s: "/schedules", b: "/busy", h: "/history", c: "/clients", v: "/server" };
  let going = 0;
  function step(by) {
    const rows = all("tbody[data-rows] tr[data-key]");
    const was = rows.findIndex((row) => row.classList.contains("at"));
    const row = rows[Math.max(0, Math.min(rows.length - 1, was + by))];
    if (!row) return;
    rows[was]?.classList.remove("at");
    row.classList.add("at");
    (one("a", row) ?? Object.assign(row, { tabIndex: -1 })).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  const KEYS = {
    "/": () => one(".search input[type=search]")?.focus(),
    "?": () => one("#help")?.showModal(),
    ".": pause,
    g: () => (going = Date.now()),
    j: () => step(1),
    k: () => step(-1),
    x: () => one("tr.at input[type=checkbox]")?.click(),
    r: () => one('tr.at form[action*="run?"] button, main > :not(table) form[action*="run?"] button')?.click(),
    Enter: () => document.activeElement === document.body && one("tr.at a")?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && dialog()) return close(dialog());
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]") || dialog()) return;
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (typing) return event.key === "Escape" && typing.blur();
    const place = Date.now() - going < 1500 && PLACES[event.key];
    going = 0;
    if (place) return location.assign(place);
    if (KEYS[event.key] && event.key !== "Enter") event.preventDefault();
    KEYS[event.key]?.();
  });

  // ---- Begin ----
  html.classList.add("js");
  enhance(document);
  counts();
  if (one("link[rel=stylesheet]")?.sheet === null) reloadOnce("style");
  document.addEventListener("visibilitychange", watch);
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => event.persisted && watch());
  watch();
})();

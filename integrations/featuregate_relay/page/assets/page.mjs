// Keeps the page live. The relay sends an event when a cluster has changed; the page then fetches itself again, and
// takes over the sections that are other ones. The HTML is made by the server only.

const SECONDS_OF_SILENCE = 45; // three heartbeats
const SECONDS_WITHOUT_EVENTS = 15; // between two looks, where the page has no stream
const SECONDS_TO_RETRY = 5;

const main = document.querySelector("main");
const status = document.getElementById("live");
const shown = new Map(sections(document).map((section) => [section.id, section.outerHTML]));
let loadedAt = performance.now();
let stream = null;
let silence = 0;
let retry = 0;
let loading = null;

function sections(page) {
  return [...page.querySelectorAll("main > section[id]")];
}

function say(text) {
  if (status.textContent !== text) {
    status.textContent = text;
  }
}

// ---------------------------------------------------------------- the page

async function fetchPage() {
  const response = await fetch(location.href, { cache: "no-store" });
  if (!response.ok) {
    throw new Error(`the relay answers ${response.status}`);
  }
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** Fetch the page again; one fetch at a time. */
function refresh() {
  loading ??= fetchPage()
    .then(takeOver)
    .finally(() => {
      loading = null;
    });
  return loading;
}

function takeOver(page) {
  loadedAt = performance.now();
  document.title = page.title;
  main.dataset.revision = page.querySelector("main").dataset.revision;
  const found = sections(page);
  const known = sections(document);
  if (found.map((each) => each.id).join() !== known.map((each) => each.id).join()) {
    main.replaceChildren(...found.map((each) => document.importNode(each, true)));
  } else {
    found.forEach((section, index) => {
      if (shown.get(section.id) !== section.outerHTML) {
        replace(known[index], document.importNode(section, true));
      }
    });
  }
  found.forEach((section) => shown.set(section.id, section.outerHTML));
  document.querySelector("footer time").replaceWith(document.importNode(page.querySelector("footer time"), true));
  showAges();
}

/** Put a section in the place of another one, with what a person has opened, scrolled and focused there. */
function replace(old, section) {
  const open = new Set([...old.querySelectorAll("details[open]")].map((details) => details.id));
  const scrolled = old.querySelector(".wide")?.scrollLeft ?? 0;
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  old.replaceWith(section);
  section.querySelectorAll("details").forEach((details) => {
    details.open = open.has(details.id);
  });
  const wide = section.querySelector(".wide");
  if (wide) {
    wide.scrollLeft = scrolled;
  }
  if (focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

function showAges() {
  const passed = (performance.now() - loadedAt) / 1000;
  document.querySelectorAll("[data-age]").forEach((age) => {
    age.textContent = Math.round(Number(age.dataset.age) + passed);
  });
}

// ---------------------------------------------------------------- the stream

function listen() {
  silenced();
  stream = new EventSource(main.dataset.events);
  stream.addEventListener("view", (event) => changed(JSON.parse(event.data)));
  stream.addEventListener("health", (event) => changed(JSON.parse(event.data)));
  stream.addEventListener("heartbeat", () => alive(refresh()));
  stream.addEventListener("error", lost);
}

function hangUp() {
  clearTimeout(silence);
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function changed(state) {
  const news = main.dataset.revision !== "" && main.dataset.revision !== state.revision;
  alive(
    refresh().then(() => {
      const newest = document.querySelector("#timeline li span")?.textContent.trim().replace(/\s+/g, " ");
      return news && newest ? `Changed: ${newest}` : null;
    }),
  );
}

function alive(work) {
  silenced();
  work.then(
    (news) => say(news ?? (status.textContent.startsWith("Changed") ? status.textContent : "Live")),
    () => say("The page could not be fetched again: it shows what was known before"),
  );
}

/** Begin the time after which a stream without events is taken for a broken one. */
function silenced() {
  clearTimeout(silence);
  silence = setTimeout(lost, SECONDS_OF_SILENCE * 1000);
}

function lost() {
  say("The connection to the relay is lost: the page shows what was known before");
  // A stream that was refused, or is silent, does not come back by itself.
  if (stream && stream.readyState === EventSource.CONNECTING) {
    return;
  }
  hangUp();
  retry = setTimeout(listen, (1 + Math.random()) * SECONDS_TO_RETRY * 1000);
}

// ---------------------------------------------------------------- while somebody looks

function look() {
  hangUp();
  if (document.visibilityState === "visible") {
    if (main.dataset.events) {
      listen();
    } else {
      alive(refresh());
      hangUp();
      retry = setTimeout(look, SECONDS_WITHOUT_EVENTS * 1000);
    }
  }
}

setInterval(showAges, 1000);
document.addEventListener("visibilitychange", look);
addEventListener("pagehide", hangUp);
addEventListener("pageshow", (event) => event.persisted && look());
look();

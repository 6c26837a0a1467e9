// Keeps the page live. The relay sends an event when a cluster has changed; the page then fetches itself again, and
// takes over the sections that are other ones. The HTML is made by the server only.

const SECONDS_OF_SILENCE = 45; // three heartbeats
const SECONDS_WITHOUT_EVENTS = 15; // between two looks, where the page has no stream
const SECONDS_TO_COME_BACK = 8; // without a stream, until the page says so
const SECONDS_TO_RETRY = 4; // the relay ends each stream after some minutes

const main = document.querySelector("main");
const status = document.getElementById("live");
const shown = new Map(sections(document).map((section) => [section.id, section.outerHTML]));
let loadedAt = performance.now();
let stream = null; // ends what listens
let lastEventId = "";
let silence = 0;
let lost = 0; // the same, once the stream has ended
let retry = 0;
let loading = null;
let again = false;
let news = "Live";

function sections(page) {
  return [...page.querySelectorAll("main > section[id]")];
}

function say(text) {
  if (status.textContent !== text) {
    status.textContent = text;
  }
}

// ---------------------------------------------------------------- the page

/** A relay that is behind what the page shows refuses, after it has waited for its next poll. */
function pageWithFloor() {
  const url = new URL(location.href);
  const { seen, answered } = main.dataset;
  if (seen) {
    url.searchParams.set("seen", seen);
    url.searchParams.set("notOlderThan", Number(answered) + (performance.now() - loadedAt) / 1000);
  }
  return url;
}

async function fetchPage() {
  const response = await fetch(pageWithFloor(), { cache: "no-store" });
  if (!response.ok) {
    throw new Error(`the relay answers ${response.status}`);
  }
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** Fetch the page again. What changes during a fetch may be missing in its page, so that another fetch follows. */
function refresh() {
  if (loading) {
    again = true;
    return loading;
  }
  again = false;
  loading = fetchPage()
    .then(takeOver)
    .finally(() => {
      loading = null;
    })
    .then(() => (again ? refresh() : null));
  return loading;
}

function takeOver(page) {
  loadedAt = performance.now();
  document.title = page.title;
  const made = page.querySelector("main").dataset;
  const { revision } = made;
  const before = main.dataset.revision;
  ["revision", "seen", "answered"].forEach((name) => {
    if (name in made) {
      main.dataset[name] = made[name];
    }
  });
  const found = sections(page);
  const known = sections(document);
  if (found.map((each) => each.id).join() !== known.map((each) => each.id).join()) {
    keeping(main, () => main.replaceChildren(...found.map((each) => document.importNode(each, true))));
  } else {
    found.forEach((section, index) => {
      if (shown.get(section.id) !== section.outerHTML) {
        keeping(known[index], () => known[index].replaceWith(document.importNode(section, true)));
      }
    });
  }
  found.forEach((section) => shown.set(section.id, section.outerHTML));
  document.querySelector("footer time").replaceWith(document.importNode(page.querySelector("footer time"), true));
  showAges();
  if (before !== "" && before !== revision) {
    news = `Live; changed at ${new Date().toLocaleTimeString()}`;
  }
}

/** Put something in the place of a part of the page, and keep what a person has opened, scrolled and focused there. */
function keeping(part, put) {
  const open = [...part.querySelectorAll("details[open]")].map((details) => details.id);
  const scrolled = [...part.querySelectorAll(".wide")].map((wide) => [wide.id, wide.scrollLeft]);
  const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
  put();
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  scrolled.forEach(([id, left]) => document.getElementById(id)?.scrollTo({ left }));
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

/** Listen until the page is left. An `EventSource` would send no key of its own, and no URL may have one. */
async function listen() {
  stream = new AbortController();
  const { signal } = stream;
  silenced();
  while (!signal.aborted) {
    try {
      await hear(signal);
    } catch {
      // The relay is away, or has ended the stream amid an event.
    }
    if (!signal.aborted) {
      lostWithin(SECONDS_TO_COME_BACK);
      await new Promise((resolve) => setTimeout(resolve, (1 + Math.random() * SECONDS_TO_RETRY) * 1000));
    }
  }
}

async function hear(signal) {
  const headers = lastEventId ? { "Last-Event-ID": lastEventId } : {};
  const response = await fetch(main.dataset.events, { cache: "no-store", headers, signal });
  if (!response.ok) {
    throw new Error(`the relay answers ${response.status}`);
  }
  if (main.dataset.revision === "") {
    alive(); // the stream of a cluster that has not answered yet has no event
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const events = (text + value).split("\n\n");
    text = events.pop();
    events.filter((event) => event.includes("event: ")).forEach(heard);
  }
}

function heard(event) {
  lastEventId = /^id: (.*)$/m.exec(event)?.[1] ?? lastEventId;
  alive();
}

function hangUp() {
  clearTimeout(silence);
  clearTimeout(retry);
  stream?.abort();
  stream = null;
}

function alive() {
  silenced();
  refresh().then(
    () => say(news),
    () => say("The page could not be fetched again: it shows what was known before"),
  );
}

/** Begin the time after which a stream without events is taken for a broken one. */
function silenced() {
  clearTimeout(silence);
  lost = 0;
  silence = setTimeout(giveUp, SECONDS_OF_SILENCE * 1000);
}

/** Say that the relay is away unless it answers within so many seconds of the first failure. */
function lostWithin(seconds) {
  if (!lost) {
    clearTimeout(silence);
    lost = setTimeout(giveUp, seconds * 1000);
    silence = lost;
  }
}

function giveUp() {
  say("The connection to the relay is lost: the page shows what was known before");
  hangUp();
  listen();
}

// ---------------------------------------------------------------- while somebody looks

function look() {
  hangUp();
  if (document.visibilityState === "visible") {
    if (main.dataset.events) {
      listen();
    } else {
      alive();
      clearTimeout(silence);
      retry = setTimeout(look, SECONDS_WITHOUT_EVENTS * 1000);
    }
  }
}

setInterval(showAges, 1000);
document.addEventListener("visibilitychange", look);
addEventListener("pagehide", hangUp);
addEventListener("pageshow", (event) => event.persisted && look());
look();

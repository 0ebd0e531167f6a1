// @ts-check
/**
 * asynctask.js: follow a background job from a web page.
 *
 * Two layers in one module, without dependencies or a build step:
 *   `Task`          the polling core: one stream of requests for each job on a page, however many look at it
 *   `<async-task>`  a button with progress, built on nothing but `Task`
 *
 * Theory of operation. A `Task` is a handle; behind all handles with the same URL, headers and credentials stands
 * one `Poller`, which lives from its first subscriber to its last. The poller is a state machine; MOVES below is
 * all of it, and a move that is not in the table does not happen.
 *
 *   OFF       nobody looks
 *   FETCHING  one GET is under way                    POSTING  one POST is under way; nothing disturbs it
 *   WAITING   one timer is set                        PARKED   the page is hidden or offline
 *   SETTLED   nothing runs, nothing to ask for        BLOCKED  the server said 401, 403 or 404
 *
 * Rules
 *  1. Timers + requests under way ≤ 1. There is no setInterval.
 *  2. Every exit from a state starts a new generation, clears the timer and aborts the GET; what an older generation
 *     awaited is dropped. A POST is an exit too, so no GET that left before it can overwrite its answer.
 *  3. Of two pictures of one run the higher version wins, whatever the order they come in.
 *  4. The click lock is in `post()`, taken before the first await: one POST, however fast the clicks.
 *  5. The server sets the pace (pollAfterMs, Retry-After), stretched by up to 25 %: clients do not march in step.
 *  6. Errors back off to 30 s. Three in a row mean that the connection is lost; the last picture stays. FAILED is
 *     only what the server said.
 *  7. A hidden or offline page is parked. Coming back, going online and a restore from the back/forward cache each
 *     cost one GET; so does a trigger in another tab.
 *  8. Leaving is decided in a microtask, so that moving an element, or mounting it twice as React's StrictMode does,
 *     costs nothing.
 *  9. No code of the host's runs inside the core: events are dispatched from a microtask.
 */

/** @typedef {"IDLE" | "RUNNING" | "SUCCESS" | "FAILED"} Status */
/**
 * The server's picture of a run.
 * @typedef {object} Snapshot
 * @property {Status} status
 * @property {string | null} runId
 * @property {number} version grows with every visible change
 * @property {number} processed
 * @property {number | null} total null: not known, progress is indeterminate
 * @property {number | null} percent 0 to 100, 100 only at SUCCESS
 * @property {number} failed items that failed
 * @property {string | null} message
 * @property {any} result
 * @property {string | null} errorMessage
 * @property {string | null} errorCode
 * @property {boolean} cancelRequested
 * @property {number | null} durationMs
 * @property {number | null} pollAfterMs
 */
/**
 * Why a request was refused (RFC 9457), or that it got no answer (status 0).
 * @typedef {{status: number, title: string, detail: string, code: string}} Problem
 */
/**
 * What a page may know at one moment; frozen.
 * @typedef {object} TaskState
 * @property {Snapshot | null} snapshot the newest picture; null before the first answer
 * @property {boolean} pending a trigger is under way
 * @property {boolean} held the server asked not to trigger again yet (429, 503 with Retry-After)
 * @property {boolean} lost the connection is lost: three errors in a row, or the browser is offline
 * @property {boolean} blocked polling has stopped, since the server said 401, 403 or 404
 * @property {Problem | null} problem what refused the last request
 * @property {readonly string[]} ended run ids that ended with this very change, having been seen running or triggered
 */
/** @typedef {{headers?: HeadersInit, credentials?: RequestCredentials}} TaskOptions */
/** @typedef {{status: number, snapshot: Snapshot | null, etag: string, retryAfter: number, problem: Problem}} Answer */
/** @typedef {"OFF" | "FETCHING" | "POSTING" | "WAITING" | "PARKED" | "SETTLED" | "BLOCKED"} Phase */
/** @typedef {"open" | "close" | "post" | "look" | "due" | "running" | "failed" | "held" | "over" | "denied"
 *   | "sleep" | "wake"} Move */

/** @typedef {Partial<Record<Move, Phase>>} Moves */

/** @type {Moves} */
const OUTCOMES = { running: "WAITING", failed: "WAITING", held: "WAITING", over: "SETTLED", denied: "BLOCKED" };
/** @type {Moves} */
const AT_REST = { look: "FETCHING", wake: "FETCHING", post: "POSTING", sleep: "PARKED", close: "OFF" };
/** Phase → move → next phase. @type {Record<Phase, Moves>} */
const MOVES = {
  OFF: { open: "FETCHING", post: "POSTING" },
  FETCHING: { ...OUTCOMES, look: "FETCHING", post: "POSTING", sleep: "PARKED", close: "OFF" },
  POSTING: OUTCOMES,
  WAITING: { ...AT_REST, due: "FETCHING" },
  PARKED: { wake: "FETCHING", post: "POSTING", close: "OFF" },
  SETTLED: AT_REST,
  BLOCKED: AT_REST,
};

/** Milliseconds. A poll never comes sooner than `floor`, whatever the server asks. */
const PACE = { floor: 250, usual: 1000, backoff: 1000, cap: 30_000, longest: 600_000, timeout: 30_000 };
const LOST_AFTER = 3;

/** Before the first answer. @type {TaskState} */
export const UNKNOWN = Object.freeze({
  snapshot: null, pending: false, held: false, lost: false, blocked: false, problem: null, ended: Object.freeze([]),
});

/** @type {Map<string, Poller>} */
const pollers = new Map();

const LOOPBACK = /^(localhost|.*\.localhost|127\.[\d.]+|\[::1\])$/;
/** @param {number} ms */
const stretch = (ms) => ms * (1 + Math.random() / 4);
/** @param {number} errors in a row, from 1 */
const backoff = (errors) => stretch(Math.min(PACE.backoff * 2 ** (errors - 1), PACE.cap));

/**
 * @param {string | null} value of a Retry-After header: seconds or a date (RFC 9110 §10.2.3)
 * @returns {number} milliseconds; 0 where the server asked for nothing
 */
function retryAfter(value) {
  if (!value) return 0;
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return ms > 0 ? Math.min(ms, PACE.longest) : 0;
}

/** A picture says how soon to come back, a 304 in its header. @param {Answer} answer @param {Snapshot} snapshot */
function pace({ snapshot: fresh, retryAfter: header }, { pollAfterMs }) {
  const asked = (fresh && pollAfterMs) || header || pollAfterMs || PACE.usual;
  return stretch(Math.min(Math.max(asked, PACE.floor), PACE.longest));
}

/** @param {any} body @returns {body is Snapshot} */
const isSnapshot = (body) => /^(IDLE|RUNNING|SUCCESS|FAILED)$/.test(body?.status);

/** The shared poller of one (URL, headers, credentials). Used through `Task` alone. */
class Poller {
  /** @type {TaskState} */
  state = UNKNOWN;
  /** @type {Phase} */
  #phase = "OFF";
  #generation = 0;
  #timer = 0;
  /** @type {AbortController | undefined} */
  #flight;
  /** @type {AbortController | undefined} what listens to the page while somebody looks */
  #ears;
  /** @type {BroadcastChannel | undefined} */
  #channel;
  /** @type {Set<(state: TaskState) => void>} */
  #listeners = new Set();
  /** @type {{path: string, promise: Promise<TaskState>} | undefined} the POST under way: the click lock */
  #posting;
  /** @type {string | null} the run that was seen running and has not ended yet */
  #watched = null;
  /** @type {{runId: string | null | undefined} | null} a trigger of unknown outcome, and the run known before it */
  #doubt = null;
  #etag = "";
  #errors = 0;
  #heldUntil = 0;

  /** @param {string} key @param {URL} url @param {TaskOptions} options */
  constructor(key, url, options) {
    this.key = key;
    this.url = url;
    this.options = options;
  }

  /** @param {(state: TaskState) => void} listener */
  subscribe(listener) {
    pollers.set(this.key, this);
    this.#listeners.add(listener);
    if (this.#phase === "OFF") this.#move("open");
    return () => {
      this.#listeners.delete(listener);
      this.#leaveSoon();
    };
  }

  /** A server on this machine answers without any network. */
  get #offline() {
    return navigator.onLine === false && !LOOPBACK.test(this.url.hostname);
  }

  get #asleep() {
    return document.visibilityState === "hidden" || this.#offline;
  }

  #leaveSoon() {
    queueMicrotask(() => {
      if (this.#listeners.size || this.#posting) return;
      this.#move("close");
      if (pollers.get(this.key) === this) pollers.delete(this.key);
    });
  }

  refresh() {
    this.#move("look");
  }

  /** @param {Move} move @param {number} [delay] milliseconds, for a move to WAITING */
  #move(move, delay = 0) {
    let next = MOVES[this.#phase][move];
    if (!next) return;
    if (this.#asleep) next = MOVES[next].sleep ?? next;
    this.#generation++;
    clearTimeout(this.#timer);
    this.#flight?.abort();
    this.#phase = next;
    this.#listen(next);
    if (next === "WAITING") this.#timer = setTimeout(() => this.#move("due"), delay);
    if (next === "FETCHING") void this.#get(this.#generation);
  }

  /** An open channel would keep a page out of the back/forward cache: none while parked. */
  #listen(/** @type {Phase} */ phase) {
    if (phase === "OFF") {
      this.#ears?.abort();
      this.#ears = undefined;
    } else if (!this.#ears) {
      const { signal } = (this.#ears = new AbortController());
      const weather = () => {
        this.#move(this.#asleep ? "sleep" : "wake");
        if (this.#offline) this.#publish({ lost: true });
      };
      document.addEventListener("visibilitychange", weather, { signal });
      for (const type of ["online", "offline"]) addEventListener(type, weather, { signal });
      addEventListener("pageshow", (event) => event.persisted && weather(), { signal });
    }
    if (phase === "OFF" || phase === "PARKED") {
      this.#channel?.close();
      this.#channel = undefined;
    } else if (!this.#channel && globalThis.BroadcastChannel) {
      this.#channel = new BroadcastChannel(`asynctask ${this.url}`);
      this.#channel.onmessage = () => this.#move("look");
    }
  }

  async #get(/** @type {number} */ generation) {
    const answer = await this.#request("GET", "/status");
    if (generation !== this.#generation) return; // rule 2
    this.#take(answer);
  }

  /**
   * Sends one POST. While it is under way, the same call again gets the same promise, which never rejects.
   * @param {string} path "" triggers, "/cancel" cancels
   * @param {string} [body] JSON
   * @returns {Promise<TaskState>}
   */
  post(path, body) {
    const under = this.#posting;
    if (under) return under.path === path ? under.promise : under.promise.then(() => this.post(path, body));
    pollers.set(this.key, this);
    this.#move("post");
    const promise = this.#send(path, body);
    this.#posting = { path, promise };
    this.#publish({ pending: !path, problem: null });
    return promise;
  }

  /** @param {string} path @param {string} [body] */
  async #send(path, body) {
    const old = this.state.snapshot;
    let answer = await this.#request("POST", path, body);
    const ours = !path && !!answer.snapshot;
    const refusal = answer.snapshot ? null : answer.problem;
    if (ours) this.#channel?.postMessage("triggered");
    this.#doubt = null;
    if (refusal && [0, 500, 502, 504].includes(answer.status)) {
      // No word from the job: a gateway gave up or the line broke. Did the run start all the same? Look.
      if (!path) this.#doubt = { runId: old?.runId };
      if (this.#listeners.size) answer = await this.#request("GET", "/status");
    }
    this.#posting = undefined;
    this.#take(answer, { ours, refusal });
    if (!this.#listeners.size) this.#leaveSoon();
    return this.state;
  }

  /**
   * @param {string} method
   * @param {string} path after the job's URL
   * @param {string} [body] JSON
   * @returns {Promise<Answer>} no answer, and one that is not ours, is status 0
   */
  async #request(method, path, body) {
    const url = new URL(this.url);
    url.pathname = url.pathname.replace(/\/$/, "") + path;
    const headers = new Headers(this.options.headers);
    headers.set("Accept", "application/json");
    if (method === "GET" && this.#etag) headers.set("If-None-Match", this.#etag);
    if (body !== undefined) headers.set("Content-Type", "application/json");
    const flight = (this.#flight = new AbortController());
    AbortSignal.timeout(PACE.timeout).onabort = () => flight.abort(); // a line that hangs is a line that broke
    let status = 0;
    let etag = "";
    let wait = 0;
    /** @type {any} */
    let said = null;
    try {
      const { credentials } = this.options;
      const { signal } = flight;
      const response = await fetch(url, { method, headers, body, credentials, signal, cache: "no-store" });
      status = response.status;
      etag = response.headers.get("ETag") ?? "";
      wait = retryAfter(response.headers.get("Retry-After"));
      if (status !== 304) said = await response.json();
    } catch {
      if (status < 400) status = 0; // an error's page may be HTML; a picture may not
    }
    const snapshot = status < 300 && isSnapshot(said) ? said : null;
    if (status < 300 && !snapshot) status = 0;
    const { title = "", detail = "", code = "" } = snapshot ? {} : (said ?? {});
    return { status, snapshot, etag, retryAfter: wait, problem: { status, title, detail, code } };
  }

  /**
   * Takes an answer in: moves on, then publishes. The only place where the picture changes.
   * @param {Answer} answer
   * @param {{ours: boolean, refusal: Problem | null}} [posted] what came of the POST before it
   */
  #take(answer, posted) {
    const old = this.state.snapshot;
    const stale = answer.snapshot?.runId === old?.runId && (answer.snapshot?.version ?? 0) < (old?.version ?? 0);
    const snapshot = (!stale && answer.snapshot) || old;
    const running = snapshot?.status === "RUNNING";
    const runId = snapshot?.runId ?? null;
    if (answer.snapshot && !stale) this.#etag = answer.etag;

    const { runId: before } = this.#doubt ?? {};
    const found = !!this.#doubt && !!runId && (running || (before !== undefined && before !== runId));
    if (found) this.#doubt = null;

    /** @type {string[]} */
    const ended = [];
    if (this.#watched && !(running && runId === this.#watched)) ended.push(this.#watched);
    if ((found || posted?.ours) && !running && runId && !ended.includes(runId)) ended.push(runId);
    this.#watched = running ? runId : null;

    const blocked = [401, 403, 404].includes(answer.status);
    const seen = !!answer.snapshot || answer.status === 304;
    const told = posted?.refusal && answer.status >= 400 && (answer.status < 500 || answer.status === 503);
    let { problem } = this.state;
    if (posted) problem = found ? null : posted.refusal;
    else if (blocked) problem = answer.problem;
    else if (seen && (this.state.blocked || runId !== old?.runId)) problem = null;

    if (told) this.#heldUntil = performance.now() + answer.retryAfter;
    const hold = this.#heldUntil - performance.now();
    this.#errors = seen || told || blocked ? 0 : this.#errors + 1;
    if (blocked) this.#move("denied");
    else if (this.#errors) this.#move("failed", Math.max(backoff(this.#errors), stretch(answer.retryAfter)));
    else if (!snapshot) this.#move("failed", backoff(1));
    else if (running) this.#move("running", pace(answer, snapshot));
    else if (hold > 0) this.#move("held", hold);
    else this.#move("over");
    const lost = this.#errors >= LOST_AFTER || this.#offline;
    this.#publish({ snapshot, pending: false, held: hold > 0, lost, blocked, problem, ended });
  }

  /** @param {Partial<TaskState>} patch */
  #publish(patch) {
    const state = { ...this.state, ended: UNKNOWN.ended, ...patch };
    const keys = /** @type {(keyof TaskState)[]} */ (Object.keys(state));
    if (!state.ended.length && keys.every((key) => key === "ended" || state[key] === this.state[key])) return;
    this.state = Object.freeze(state);
    for (const listener of [...this.#listeners]) listener(state);
  }
}

/** The job at one URL, as one visitor sees it. Handles are cheap; those that agree share one poller. */
export class Task {
  #options;
  #src;
  /** @type {string | undefined} */
  #key;

  /**
   * @param {string} src URL of the job, relative to the page; a POST to it triggers
   * @param {TaskOptions} [options] for every request, as for fetch
   */
  constructor(src, { headers, credentials } = {}) {
    this.#src = src;
    this.#options = { headers: [...new Headers(headers)], credentials };
  }

  get #url() {
    const url = new URL(this.#src, document.baseURI);
    url.hash = "";
    return url;
  }

  /** Handles with the same key share a poller. */
  get key() {
    return (this.#key ??= JSON.stringify([this.#url, this.#options]));
  }

  get #poller() {
    return pollers.get(this.key) ?? new Poller(this.key, this.#url, this.#options);
  }

  get state() {
    return pollers.get(this.key)?.state ?? UNKNOWN;
  }

  /**
   * Polls for as long as somebody is subscribed.
   * @param {(state: TaskState) => void} listener called with each new state
   * @returns {() => void} ends the subscription
   */
  subscribe(listener) {
    return this.#poller.subscribe(listener);
  }

  /**
   * Starts a run, or joins the one that runs. While a trigger is under way a second call gets the same promise.
   * @param {unknown} [payload] sent as JSON
   * @returns {Promise<TaskState>} never rejects; a refusal is the state's `problem`
   * @throws {TypeError} JSON cannot hold the payload
   */
  trigger(payload) {
    return this.#poller.post("", payload === undefined ? undefined : JSON.stringify(payload));
  }

  /** Asks the server to cancel the run. */
  cancel() {
    return this.#poller.post("/cancel");
  }

  /** Looks once, now: after a login, or when other parts of the page know that something has changed. */
  refresh() {
    pollers.get(this.key)?.refresh();
  }
}

/** Texts by language; `{…}` are filled in. Attributes of the element come before them. */
const TEXTS = {
  en: {
    label: "Run",
    running: "{label} {percent}%",
    success: "{label}: done",
    error: "{label}: failed",
    processed: "{processed} processed",
    failed: "{failed} failed",
    lost: "Connection lost. Trying again…",
    gone: "{label}: the server no longer knows this run. Start it again.",
    refused: "The server did not take the request ({status}).",
    silent: "The server did not answer.",
    denied: "You may not see this task ({status}).",
    retry: "Try now",
    cancel: "Cancel",
    cancelling: "Cancelling…",
    dismiss: "Dismiss",
  },
  zh: {
    label: "执行",
    running: "{label}中 {percent}%",
    success: "{label}完成",
    error: "{label}失败",
    processed: "已处理 {processed}",
    failed: "失败 {failed}",
    lost: "连接已断开，正在重试…",
    gone: "{label}：服务器已没有这次运行的记录，请重新开始。",
    refused: "服务器未接受请求（{status}）。",
    silent: "服务器没有响应。",
    denied: "无权查看此任务（{status}）。",
    retry: "立即重试",
    cancel: "取消",
    cancelling: "正在取消…",
    dismiss: "关闭",
  },
};
const FADE = 3000; // milliseconds that a success is shown

const STYLE = `
:host { display: block; font: 400 var(--async-task-font-size, 0.9375rem)/1.45 var(--async-task-font, inherit);
  --_accent: var(--async-task-accent, light-dark(#1d4ed8, #8fb0ff));
  --_on-accent: var(--async-task-on-accent, light-dark(#fff, #0b1530));
  --_text: var(--async-task-text, light-dark(#1b2430, #e6eaf2));
  --_muted: var(--async-task-muted, light-dark(#556070, #a3adbd));
  --_surface: var(--async-task-surface, light-dark(#fff, #171c26));
  --_track: var(--async-task-track, light-dark(#dfe4ee, #303848));
  --_radius: var(--async-task-radius, 0.5rem);
  --_kind: var(--_accent); color: var(--_text); }
:host([hidden]), [hidden] { display: none !important; }
[part=base] { display: flex; flex-wrap: wrap; align-items: center; gap: 0.75rem; }
slot:not([name])::slotted(*) { flex: 1 1 12rem; min-inline-size: 0; }
button { font: inherit; font-weight: 550; border-radius: var(--_radius); cursor: pointer; }
button:focus-visible { outline: 2px solid var(--_accent); outline-offset: 2px; }
button:disabled { cursor: default; }
[part=button] { display: inline-flex; align-items: center; justify-content: center; gap: 0.5em; min-block-size: 2.5em;
  padding: 0.4em 1.1em; color: var(--_on-accent); background: var(--_accent); border: 1px solid transparent;
  font-variant-numeric: tabular-nums; transition: filter 0.15s; }
[part=button]:hover:enabled { filter: brightness(1.1); }
[part=button]:disabled { color: var(--_accent); background: color-mix(in srgb, var(--_accent) 12%, var(--_surface));
  border-color: color-mix(in srgb, var(--_accent) 25%, var(--_surface)); }
[part=spinner] { inline-size: 1em; block-size: 1em; box-sizing: border-box; border-radius: 50%;
  border: 2px solid color-mix(in srgb, currentColor 30%, transparent); border-block-start-color: currentColor;
  animation: spin 0.8s linear infinite; }
[part=alert] { flex: 1 0 100%; box-sizing: border-box; display: grid; gap: 0.6rem; padding: 0.8rem 1rem;
  border: 1px solid color-mix(in srgb, var(--_kind) 32%, var(--_surface)); border-radius: var(--_radius);
  background: color-mix(in srgb, var(--_kind) 7%, var(--_surface)); }
[data-kind=success] { --_kind: var(--async-task-success, light-dark(#15803d, #5fd38d)); }
[data-kind=failed] { --_kind: var(--async-task-danger, light-dark(#c01f2f, #ff8a8f)); }
[data-kind=warning] { --_kind: var(--async-task-warning, light-dark(#a15c00, #f0b658)); }
[part=head] { display: flex; flex-wrap: wrap; align-items: center; gap: 0.25rem 0.75rem; }
[part=title] { flex: 1 1 5rem; max-inline-size: 100%; font-weight: 600; overflow-wrap: break-word; }
:not([data-kind=running]) > * > [part=title] { color: var(--_kind); }
[part=counter] { color: var(--_muted); font-variant-numeric: tabular-nums; }
[part=detail] { color: var(--_muted); overflow-wrap: anywhere; white-space: pre-line; }
[data-kind=failed] > [part=detail] { color: inherit; }
[part=retry], [part=cancel], [part=dismiss] { padding: 0.1em 0.6em; color: inherit; background: none;
  border: 1px solid color-mix(in srgb, currentColor 30%, transparent); }
[part=progress] { block-size: 0.5rem; border-radius: 1rem; background: var(--_track); overflow: hidden; }
[part=bar] { block-size: 100%; border-radius: inherit; background: var(--_kind); transition: inline-size 0.3s; }
[part=progress]:not([aria-valuenow]) > [part=bar] { inline-size: 35%; animation: slide 1.4s ease-in-out infinite; }
[part=live] { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
[part=alert] { transition: opacity 0.4s, display 0.4s allow-discrete; }
[part=alert][hidden] { opacity: 0; }
@keyframes spin { to { rotate: 1turn; } }
@keyframes slide { from { translate: -100% 0; } to { translate: 290% 0; } }
@media (forced-colors: active) { [part=bar] { background: Highlight; } [part=progress] { border: 1px solid; } }
@media (prefers-reduced-motion: reduce) { * { animation: none !important; transition: none !important; }
  [part=progress]:not([aria-valuenow]) > [part=bar] { inline-size: 100%; opacity: 0.45; } }
`;

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} part
 * @param {...Node} children
 * @returns {HTMLElementTagNameMap[K]}
 */
function make(tag, part, ...children) {
  const node = document.createElement(tag);
  node.part.add(part);
  node.append(...children);
  return node;
}

/** @param {Node} node @param {string} text */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {number} value @param {string} lang */
function digits(value, lang) {
  try {
    return value.toLocaleString(lang);
  } catch {
    return `${value}`; // not a language tag
  }
}

/**
 * What the alert shows; `key` tells one message from the next, so that one can be dismissed if it does not last.
 * @typedef {{kind: "running" | "success" | "warning" | "failed", key: string | Problem, title: string,
 *   detail?: string | null, lasts?: boolean}} View
 */

/** On a server, where React may render, there is no HTMLElement. */
const Base = /** @type {typeof HTMLElement} */ (globalThis.HTMLElement ?? class {});

/** `<async-task src="/api/duplicates/check" label="Check for duplicates">`; docs/frontend.md has all of it. */
export class AsyncTaskElement extends Base {
  static observedAttributes = [
    "src", "credentials", "label", "running-label", "success-label", "error-label", "lang", "cancelable",
  ];
  /** @type {CSSStyleSheet | undefined} a constructed sheet: a strict Content-Security-Policy lets it pass */
  static #sheet;

  /** @type {HeadersInit | undefined} */
  #headers;
  /** @type {unknown} */
  #payload;
  /** @type {Task | undefined} */
  #task;
  /** @type {(() => void) | undefined} */
  #release;
  #state = UNKNOWN;
  /** @type {string | Problem | null} the message that was dismissed */
  #dismissed = null;
  /** @type {string | null} the run whose success is being shown */
  #flash = null;
  /** @type {string | null} the run that the server no longer knows */
  #gone = null;
  /** @type {string | Problem | null} the message that screen readers were told last */
  #told = null;
  #heard = 0; // the last quarter that they were told
  #here = false;
  #refocus = false;

  #root = this.attachShadow({ mode: "open" });
  #spinner = make("span", "spinner");
  #icon = document.createElement("slot");
  #text = make("span", "label");
  #button = make("button", "button", this.#spinner, this.#icon, this.#text);
  #title = make("span", "title");
  #counter = make("span", "counter");
  #retry = make("button", "retry");
  #cancel = make("button", "cancel");
  #dismiss = make("button", "dismiss");
  #head = make("div", "head", this.#title, this.#counter, this.#retry, this.#cancel, this.#dismiss);
  #bar = make("div", "bar");
  #progress = make("div", "progress", this.#bar);
  #detail = make("div", "detail");
  #slot = document.createElement("slot");
  #alert = make("div", "alert", this.#head, this.#progress, this.#detail, this.#slot);
  #live = make("div", "live");

  constructor() {
    super();
    if (!AsyncTaskElement.#sheet) {
      AsyncTaskElement.#sheet = new CSSStyleSheet();
      AsyncTaskElement.#sheet.replaceSync(STYLE);
    }
    this.#root.adoptedStyleSheets = [AsyncTaskElement.#sheet];
    this.#root.append(make("div", "base", document.createElement("slot"), this.#button, this.#alert, this.#live));
    this.#icon.name = "icon";
    this.#live.role = "status";
    Object.assign(this.#progress, { role: "progressbar", ariaValueMin: "0", ariaValueMax: "100" });
    this.#button.addEventListener("click", () => void this.trigger(this.#payload));
    this.#cancel.addEventListener("click", () => void this.cancel());
    this.#retry.addEventListener("click", () => this.refresh());
    this.#dismiss.addEventListener("click", () => {
      this.#dismissed = this.#view()?.key ?? null;
      this.#render();
    });
  }

  connectedCallback() {
    for (const name of /** @type {const} */ (["headers", "payload"])) {
      if (!Object.hasOwn(this, name)) continue; // set before the element was defined
      const { [name]: value } = this;
      Reflect.deleteProperty(this, name);
      Object.assign(this, { [name]: value });
    }
    this.#here = true;
    this.#connect();
  }

  disconnectedCallback() {
    this.#here = false;
    this.#release?.();
    this.#release = undefined;
  }

  /** @param {string} name */
  attributeChangedCallback(name) {
    if (!this.#here) return; // an upgrade tells of the attributes first
    if (name === "src" || name === "credentials") this.#connect();
    else this.#render();
  }

  /** Sent with every request. Setting other ones starts afresh, as for another visitor. */
  get headers() {
    return this.#headers;
  }

  set headers(value) {
    this.#headers = value;
    if (this.#here) this.#connect();
  }

  /** What a click on the button sends as JSON; undefined: no body. */
  get payload() {
    return this.#payload;
  }

  set payload(value) {
    this.#payload = value;
  }

  /** The newest picture of the run, or null before the first answer. */
  get snapshot() {
    return this.#state.snapshot;
  }

  /** As `Task.trigger`. @param {unknown} [payload] */
  async trigger(payload) {
    return (await this.#task?.trigger(payload)) ?? this.#state;
  }

  async cancel() {
    return (await this.#task?.cancel()) ?? this.#state;
  }

  refresh() {
    this.#task?.refresh();
  }

  /** @param {FocusOptions} [options] */
  focus(options) {
    this.#button.focus(options);
  }

  #connect() {
    const before = this.#task?.key;
    this.#release?.();
    const src = this.getAttribute("src");
    const credentials = /** @type {RequestCredentials | null} */ (this.getAttribute("credentials")) ?? undefined;
    this.#task = src ? new Task(src, { headers: this.#headers, credentials }) : undefined;
    if (this.#task?.key !== before) this.#dismissed = this.#flash = this.#gone = this.#told = null;
    this.#release = this.#task?.subscribe((state) => this.#update(state));
    this.#state = this.#task?.state ?? UNKNOWN;
    this.#render();
  }

  /** @param {TaskState} state */
  #update(state) {
    const before = this.#state;
    this.#state = state;
    const { snapshot, ended } = state;
    const over = snapshot && ended.includes(snapshot.runId ?? "") ? snapshot.status : null;
    if (state.pending || snapshot?.status === "RUNNING") this.#flash = this.#gone = null;
    if (ended.length && snapshot?.status === "IDLE") this.#gone = ended[0];
    if (over === "SUCCESS") {
      const run = (this.#flash = ended[ended.length - 1]);
      setTimeout(() => {
        if (this.#flash === run) this.#flash = null;
        this.#render();
      }, FADE);
    }
    this.#render();

    const { problem, pending, lost } = state;
    const changed = snapshot !== before.snapshot || problem !== before.problem || pending !== before.pending;
    /** @type {[happened: boolean, type: string, runId?: string][]} */
    const events = [
      [changed, "task-change"],
      [lost !== before.lost, "task-connection"],
      [over === "SUCCESS", "task-success"],
      [over === "FAILED", "task-error"],
    ];
    for (const runId of ended) events.push([true, "task-settled", runId]);
    queueMicrotask(() => {
      for (const [happened, type, runId = snapshot?.runId ?? null] of events) {
        const detail = { snapshot, problem, pending, lost, runId };
        if (happened) this.dispatchEvent(new CustomEvent(type, { bubbles: true, composed: true, detail }));
      }
    });
  }

  /** Every text in the page's language, attributes first, filled in for the present picture. */
  get #texts() {
    const lang = this.closest("[lang]")?.getAttribute("lang") || document.documentElement.lang || "en";
    const { snapshot, pending, problem } = this.#state;
    const texts = { ...(/^zh\b/i.test(lang) ? TEXTS.zh : TEXTS.en), counter: "{processed} / {total}" };
    for (const name of /** @type {const} */ (["label", "running", "success", "error"])) {
      texts[name] = this.getAttribute(name === "label" ? name : `${name}-label`) ?? texts[name];
    }
    const percent = pending ? null : snapshot?.percent;
    if (percent == null) texts.running = texts.running.replace(/\s*\{percent\}\s*[%％]?/, "…");
    /** @type {Record<string, unknown>} */
    const values = { label: texts.label, percent, status: problem?.status };
    for (const name of /** @type {const} */ (["processed", "total", "failed"])) {
      values[name] = digits(snapshot?.[name] ?? 0, lang);
    }
    for (const key of /** @type {(keyof typeof texts)[]} */ (Object.keys(texts))) {
      texts[key] = texts[key].replace(/\{(\w+)\}/g, (all, name) => `${values[name] ?? all}`);
    }
    return texts;
  }

  /** The first row that holds and was not dismissed. @returns {View | undefined} */
  #view() {
    const { snapshot, pending, lost, blocked, problem } = this.#state;
    const { runId = "", status, message, errorMessage } = snapshot ?? {};
    const t = this.#texts;
    const busy = pending || status === "RUNNING";
    const plain = blocked ? t.denied : problem?.status ? t.refused : t.silent;
    /** @type {(View | false | null | undefined | "")[]} */
    const rows = [
      lost && { kind: "warning", key: "lost", title: t.lost, lasts: true },
      problem && { kind: "warning", key: problem, title: problem.detail || problem.title || plain, lasts: blocked },
      busy && { kind: "running", key: "running", title: t.label, detail: message, lasts: true },
      status === "FAILED" && { kind: "failed", key: `${runId}`, title: t.error, detail: errorMessage },
      this.#flash && { kind: "success", key: this.#flash, title: t.success, detail: message, lasts: true },
      this.#gone && { kind: "warning", key: this.#gone, title: t.gone },
    ];
    return rows.find((row) => !!row && row.key !== this.#dismissed) || undefined;
  }

  #render() {
    const { snapshot, pending, held, blocked, lost } = this.#state;
    const t = this.#texts;
    const status = snapshot?.status;
    const busy = pending || status === "RUNNING";
    if (status && status !== this.getAttribute("status")) this.setAttribute("status", status);
    if (!status) this.removeAttribute("status");

    // A disabled button loses the focus; whoever had it gets it back, unless it has gone elsewhere.
    this.#refocus ||= this.#root.activeElement === this.#button;
    write(this.#text, busy ? t.running : t.label);
    this.#spinner.hidden = !busy;
    this.#button.disabled = busy || held || blocked || !this.#task;
    if (this.#refocus && !this.#button.disabled) {
      this.#refocus = false;
      const { activeElement } = document;
      if (activeElement === document.body || activeElement === this) this.focus({ preventScroll: true });
    }

    const view = this.#view();
    this.#alert.hidden = !view;
    if (!view) return;
    const { processed, total, failed, cancelRequested = false } = snapshot ?? {};
    const percent = pending ? null : (snapshot?.percent ?? null);
    const counts = [total == null ? processed && t.processed : t.counter, failed && t.failed];
    const counter = pending || status === "IDLE" ? "" : counts.filter(Boolean).join(" · ");
    this.#alert.dataset.kind = view.kind;
    write(this.#title, view.title);
    write(this.#counter, counter);
    write(this.#detail, view.detail ?? "");
    this.#detail.hidden = !view.detail;
    this.#slot.name = view.kind;

    this.#progress.hidden = !busy;
    this.#progress.ariaLabel = t.label;
    this.#progress.ariaValueText = counter || null;
    this.#progress.ariaValueNow = percent === null ? null : `${percent}`;
    this.#bar.style.inlineSize = percent === null ? "" : `${percent}%`;

    write(this.#retry, t.retry);
    this.#retry.hidden = !(lost || blocked);
    write(this.#cancel, cancelRequested ? t.cancelling : t.cancel);
    this.#cancel.disabled = cancelRequested;
    this.#cancel.hidden = pending || !(status === "RUNNING" && this.hasAttribute("cancelable"));
    write(this.#dismiss, "×");
    this.#dismiss.ariaLabel = t.dismiss;
    this.#dismiss.hidden = !!view.lasts;
    this.#announce(view, percent ?? 0, t.running);
  }

  /** Screen readers hear the quarters and each new message, not every tick. */
  #announce(/** @type {View} */ view, /** @type {number} */ percent, /** @type {string} */ progress) {
    const quarter = Math.floor(percent / 25);
    const fresh = view.key !== this.#told;
    this.#told = view.key;
    if (view.kind === "running") {
      if (fresh) write(this.#live, ""); // so that the same end is heard again
      else if (quarter > this.#heard) write(this.#live, progress);
      this.#heard = quarter;
    } else if (fresh) {
      write(this.#live, [view.title, view.detail].filter(Boolean).join(". "));
    }
  }
}

if (!globalThis.customElements?.get("async-task")) globalThis.customElements?.define("async-task", AsyncTaskElement);

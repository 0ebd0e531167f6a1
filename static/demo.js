// @ts-check
/**
 * demo.js: the page around the element. The check itself is the element's; this loads the list that the check
 * refreshes, the assessment of the trigger condition, and runs the synchronous version for comparison.
 */

/** @typedef {{id: number, title: string}} Product */
/** @typedef {{fingerprint: string, products: Product[]}} Group */
/**
 * @typedef {object} Listing
 * @property {number} products in the catalogue
 * @property {string | null} runId of the check that made the list; null before the first
 * @property {number | null} groups
 * @property {number | null} duplicates
 * @property {Group[]} items
 */

const PART = 50; // groups loaded at a time
const LIMIT = 30; // seconds that gateways wait by default
const counted = new Intl.NumberFormat(document.documentElement.lang);

/** @param {string} id @returns {HTMLElement} */
function $(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** @param {string} tag @param {string} name @param {...(Node | string)} children */
function make(tag, name, ...children) {
  const node = document.createElement(tag);
  node.className = name;
  node.append(...children);
  return node;
}

/** @param {number} count @param {string} one @param {string} many */
const plural = (count, one, many) => `${counted.format(count)} ${count === 1 ? one : many}`;

const task = /** @type {import("./asynctask.js").AsyncTaskElement} */ ($("task"));
const inputs = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("#tenants input"));
let token = "";
let tenancy = new AbortController(); // aborted when another tenant is picked

/**
 * @param {string} path
 * @returns {Promise<{status: number, body: any}>} status 0: no answer
 */
async function load(path) {
  const { signal } = tenancy;
  try {
    const response = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, signal });
    return { status: response.status, body: await response.json().catch(() => ({})) };
  } catch (error) {
    if (signal.aborted) throw error;
    return { status: 0, body: { detail: "The server did not answer." } };
  }
}

/** @param {number} offset of the first group to load; 0 replaces the list */
async function loadGroups(offset) {
  const { status, body } = await load(`api/duplicates?offset=${offset}&limit=${PART}`);
  const list = $("groups");
  const state = $("list-state");
  if (status !== 200) {
    state.textContent = body.detail ?? `The list could not be loaded (${status}).`;
    state.hidden = false;
    return;
  }
  const { products, runId, groups, duplicates, items } = /** @type {Listing} */ (body);
  $("products").textContent = plural(products, "product", "products");
  $("summary").textContent = runId
    ? `${plural(groups ?? 0, "group", "groups")}, ${plural(duplicates ?? 0, "duplicate", "duplicates")}`
    : "";
  state.textContent = runId ? "No two products are the same." : "Not checked yet. Start a check to fill this list.";
  const rows = items.map(({ products: same }) =>
    make(
      "li",
      "group",
      make("span", "count", `${same.length}×`),
      make("ul", "titles", ...same.map(({ id, title }) => make("li", "", make("span", "", title), make("code", "", `#${id}`)))),
    ),
  );
  if (offset) list.append(...rows);
  else list.replaceChildren(...rows);
  state.hidden = list.children.length > 0;
  const left = (groups ?? 0) - list.children.length;
  const more = $("more");
  more.hidden = left <= 0;
  more.textContent = `Show ${counted.format(Math.min(PART, left))} more of ${counted.format(left)}`;
}

async function loadAssessment() {
  const { status, body } = await load("api/duplicates/check/assessment");
  $("assessment").hidden = status !== 200;
  if (status !== 200) return;
  const verdict = $("verdict");
  verdict.textContent = { job: "Yes, a job", wait: "Wait in place", sync: "Stay synchronous" }[/** @type {string} */ (body.verdict)] ?? body.verdict;
  verdict.dataset.verdict = body.verdict;
  $("words").textContent = body.words;
  $("reasons").replaceChildren(.../** @type {string[]} */ (body.reasons).map((reason) => make("li", "", reason)));
  $("figures").replaceChildren(
    ...figure("One by one", body.sequentialSeconds),
    ...figure(body.atOnce ? `${body.atOnce} at once` : "Measured", body.concurrentSeconds),
  );
}

/** @param {string} name @param {number | null} seconds */
function figure(name, seconds) {
  if (seconds === null) return [];
  return [make("div", "", make("dt", "", name), make("dd", "", `${counted.format(Number(seconds.toPrecision(3)))} s`))];
}

async function runSynchronously() {
  const button = /** @type {HTMLButtonElement} */ ($("sync-run"));
  const clock = $("clock");
  const result = $("sync-result");
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  let waiting = true;
  const tick = () => {
    clock.textContent = `${seconds().toFixed(1)} of ${LIMIT} s`;
    clock.style.setProperty("--spent", `${Math.min(seconds() / LIMIT, 1) * 100}%`);
    if (waiting) setTimeout(tick, 100);
  };
  button.disabled = true;
  result.textContent = "";
  delete result.dataset.kind;
  tick();
  try {
    const { status, body } = await load("sync/duplicates");
    result.dataset.kind = status === 200 ? "success" : "error";
    result.textContent =
      status === 200
        ? `200: ${plural(body.duplicates, "duplicate", "duplicates")} after ${seconds().toFixed(1)} s without a sign of life.`
        : `${status || "No answer"}: ${body.detail ?? body.title ?? ""}`;
  } catch {
    clock.textContent = `0 of ${LIMIT} s`; // another tenant was picked
    clock.style.removeProperty("--spent");
  } finally {
    waiting = false;
    button.disabled = false;
  }
}

/** @param {string} picked a token: a real application has a session instead */
function pick(picked) {
  tenancy.abort();
  tenancy = new AbortController();
  token = picked;
  localStorage.setItem("tenant", token);
  task.headers = { Authorization: `Bearer ${token}` };
  $("groups").replaceChildren();
  refresh();
}

function refresh() {
  for (const loading of [loadGroups(0), loadAssessment()]) loading.catch(() => undefined); // aborted: another tenant
}

task.addEventListener("task-settled", refresh);
$("more").addEventListener("click", () => void loadGroups($("groups").children.length));
$("sync-run").addEventListener("click", () => void runSynchronously());
for (const input of inputs) {
  input.checked = input.value === (localStorage.getItem("tenant") ?? inputs[0].value);
  input.addEventListener("change", () => pick(input.value));
}
pick([...inputs].find((input) => input.checked)?.value ?? inputs[0].value);

// Runs before the page: counts what the one-poller law speaks of, and keeps the element's events.
(() => {
  const probe = { requests: 0, timers: 0, fetches: 0, aborted: 0, intervals: 0, most: 0, mostRequests: 0, delays: [], events: [] };
  window.probe = probe;
  const note = () => {
    probe.most = Math.max(probe.most, probe.requests + probe.timers);
    probe.mostRequests = Math.max(probe.mostRequests, probe.requests);
  };
  const { fetch, setTimeout, clearTimeout, setInterval } = window;
  const over = () => {
    probe.requests--;
    for (const wake of waiting.splice(0)) wake();
  };
  const waiting = [];
  window.fetch = async (...args) => {
    probe.fetches++;
    probe.requests++;
    note();
    let response;
    try {
      response = await fetch(...args);
    } catch (error) {
      if (error.name === "AbortError") probe.aborted++;
      over();
      throw error;
    }
    if (response.status === 304) over();
    // A request is under way until its body is read.
    else response.json = () => Response.prototype.json.call(response).finally(over);
    return response;
  };
  /** Resolves when no request is under way and the page has dealt with the last answer. */
  probe.quiet = async () => {
    do {
      if (probe.requests) await new Promise((resolve) => waiting.push(resolve));
      await new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel(); // a task that no fake clock holds up
        port1.onmessage = resolve;
        port2.postMessage(null);
      });
    } while (probe.requests);
  };
  const timers = new Set();
  window.setTimeout = (callback, delay, ...args) => {
    const id = setTimeout(() => {
      timers.delete(id);
      probe.timers = timers.size;
      callback(...args);
    }, delay);
    timers.add(id);
    probe.timers = timers.size;
    probe.delays.push(delay);
    note();
    return id;
  };
  window.clearTimeout = (id) => {
    timers.delete(id);
    probe.timers = timers.size;
    clearTimeout(id);
  };
  window.setInterval = (...args) => {
    probe.intervals++;
    return setInterval(...args);
  };
  for (const type of ["task-change", "task-success", "task-error", "task-settled", "task-connection"]) {
    window.addEventListener(type, (event) => probe.events.push([type, event.detail.runId ?? event.detail.snapshot?.runId ?? null]));
  }
  let hidden = false;
  Object.defineProperty(document, "visibilityState", { get: () => (hidden ? "hidden" : "visible") });
  probe.hide = (value) => {
    hidden = value;
    document.dispatchEvent(new Event("visibilitychange"));
  };
})();

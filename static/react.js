// @ts-check
/**
 * react.js: `useAsyncTask`, a hook on the polling core of asynctask.js. React 18 and 19; `react` is imported by its
 * bare name, so that a bundler or an import map finds the application's own.
 *
 *   const { busy, percent, trigger } = useAsyncTask("/api/duplicates/check", { onSettled: loadData });
 *   <Button loading={busy} disabled={busy} onClick={trigger}>{busy ? `回填中 ${percent ?? 0}%` : "回填"}</Button>
 *
 * Every component that names the same job shares one poller; it stops with the last of them.
 */
import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { Task, UNKNOWN } from "./asynctask.js";

/** @typedef {import("./asynctask.js").TaskState} TaskState */
/**
 * Called once for each run that was seen running or was triggered here.
 * @typedef {object} Callbacks
 * @property {(state: TaskState) => void} [onSuccess]
 * @property {(state: TaskState) => void} [onError] the run FAILED; the reason is `state.snapshot.errorMessage`
 * @property {(state: TaskState, runId: string) => void} [onSettled] however it ended: reload what it changed
 */

/** @param {any} value */
const isEvent = (value) => [value, value?.nativeEvent].some((one) => one instanceof Event);

/**
 * Follows the job at a URL.
 *
 * @param {string} src URL of the job, relative to the page; a POST to it triggers
 * @param {import("./asynctask.js").TaskOptions & Callbacks} [options] headers are compared by value
 */
export function useAsyncTask(src, options = {}) {
  const key = JSON.stringify([src, { headers: [...new Headers(options.headers)], credentials: options.credentials }]);
  const task = useMemo(() => {
    const [url, how] = JSON.parse(key);
    return new Task(url, how);
  }, [key]);

  const callbacks = useRef(options);
  useEffect(() => {
    callbacks.current = options;
  });
  const subscribe = useCallback(
    (/** @type {() => void} */ notify) =>
      task.subscribe((state) => {
        notify();
        if (state.ended.length) queueMicrotask(() => report(callbacks.current, state));
      }),
    [task],
  );
  const state = useSyncExternalStore(
    subscribe,
    () => task.state,
    () => UNKNOWN,
  );
  const actions = useMemo(
    () => ({
      /** May be an onClick as it is: an event is no payload. @param {unknown} [payload] sent as JSON */
      trigger: (payload) => task.trigger(isEvent(payload) ? undefined : payload),
      cancel: () => task.cancel(),
      refresh: () => task.refresh(),
    }),
    [task],
  );

  const { snapshot, pending, held, blocked } = state;
  const busy = pending || snapshot?.status === "RUNNING";
  return {
    ...state,
    ...actions,
    /** A trigger is under way, or the run is: show the button loading. */
    busy,
    /** A click would be in vain. */
    disabled: busy || held || blocked,
    status: snapshot?.status ?? null,
    /** 0 to 100; null: not known, show progress as indeterminate. */
    percent: pending ? null : (snapshot?.percent ?? null),
    processed: snapshot?.processed ?? 0,
    total: snapshot?.total ?? null,
    errorMessage: snapshot?.errorMessage ?? null,
  };
}

/** @param {Callbacks} callbacks @param {TaskState} state */
function report({ onSuccess, onError, onSettled }, state) {
  const { snapshot, ended } = state;
  if (ended.includes(snapshot?.runId ?? "")) (snapshot?.status === "SUCCESS" ? onSuccess : onError)?.(state);
  for (const runId of ended) onSettled?.(state, runId);
}

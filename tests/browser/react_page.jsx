// The specification's front end, with Ant Design's own parts, on useAsyncTask. `?n=` components, `?strict=0` without StrictMode.
import { StrictMode, useState } from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import { Alert, App, Button, Progress } from "antd";
import { useAsyncTask } from "../../static/react.js";

const query = new URLSearchParams(location.search);
window.seen = { loads: 0, success: 0, error: 0, renders: 0 };

function Backfill() {
  const { message } = App.useApp();
  window.seen.renders++;
  const { busy, disabled, percent, processed, total, lost, trigger } = useAsyncTask("/api/backfill", {
    headers: { "X-Given": "inline, a new object at each render" },
    onSuccess: () => {
      window.seen.success++;
      message.success("回填完成");
    },
    onError: ({ snapshot }) => {
      window.seen.error++;
      message.error(snapshot.errorMessage);
    },
    onSettled: () => window.seen.loads++,
  });
  return (
    <section>
      {busy && (
        <Alert
          type={lost ? "warning" : "info"}
          title={total === null ? "回填中" : `${processed} / ${total}`}
          description={<Progress percent={percent ?? 0} aria-label="回填" />}
        />
      )}
      <Button type="primary" loading={busy} disabled={disabled} onClick={trigger}>
        {busy ? (percent === null ? "回填中…" : `回填中 ${percent}%`) : "回填"}
      </Button>
    </section>
  );
}

function Page() {
  const [round, setRound] = useState(0);
  const [shown, setShown] = useState(true);
  window.remount = () => flushSync(() => setRound((now) => now + 1));
  window.show = setShown;
  return <App>{shown && Array.from({ length: Number(query.get("n") ?? 1) }, (_, index) => <Backfill key={`${round} ${index}`} />)}</App>;
}

const page = <Page />;
createRoot(document.getElementById("root")).render(query.get("strict") === "0" ? page : <StrictMode>{page}</StrictMode>);

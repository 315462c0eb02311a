import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, signIn, type Schemas } from "./api/client";
import { LiveLink } from "./api/live";
import { Page } from "./api/use";
import { Shell } from "./app/shell";
import { SignIn } from "./app/sign_in";
import { takeToken } from "./app/token";
import { embeddedReport } from "./report/data";
import { ReportPage } from "./report/page";
import { Empty } from "./ui/basics";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/views.css";

type Session = Schemas["SessionInfo"];

const link = new LiveLink("./api/v1/events", () =>
  get("/api/v1/session").then(
    () => 200,
    (error: unknown) => (error instanceof ApiError ? error.status : 0),
  ),
);

/** A wrong token is ignored: an earlier cookie may still have a session, else its error tells what is needed. */
async function enter(): Promise<Session> {
  const token = takeToken();
  if (token) await signIn(token).catch(() => undefined);
  return get("/api/v1/session");
}

function Start() {
  const [session, setSession] = useState<Session | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    // The same address, opened in a tab that already shows the page, does not reload it.
    const entered = (): void => {
      const token = takeToken();
      if (!token) return;
      dispatchEvent(new HashChangeEvent("hashchange"));
      void signIn(token).then(() => setTurn((last) => last + 1), () => undefined);
    };
    addEventListener("hashchange", entered);
    return () => removeEventListener("hashchange", entered);
  }, []);
  useEffect(() => {
    enter().then(
      (found) => {
        link.begin(found.now, found.revision, found.capabilities.live);
        setSession(found);
        setError(null);
      },
      (problem: unknown) => {
        if (problem instanceof ApiError) setError(problem);
      },
    );
  }, [turn]);
  if (session) {
    return (
      <Page.Provider value={{ session, link }}>
        <Shell />
      </Page.Provider>
    );
  }
  if (!error) return <p class="loading" role="status">Loading …</p>;
  return (
    <main class="content">
      <h1 class="hidden-text">Fairway</h1>
      {error.status === 401 || error.status === 403 ? (
        <SignIn message={error.message} onDone={() => setTurn(turn + 1)} />
      ) : (
        <Empty title="Fairway does not respond">
          {error.message} <button type="button" onClick={() => setTurn(turn + 1)}>Try again</button>
        </Empty>
      )}
    </main>
  );
}

/** A report carries its data; everything else comes from a server. */
async function begin(root: HTMLElement): Promise<void> {
  try {
    const report = await embeddedReport();
    render(report ? <ReportPage report={report} /> : <Start />, root);
  } catch (error) {
    render(<Empty title="This browser cannot read the report">It needs a browser of 2023 or later. {String(error)}</Empty>, root);
  }
}

const root = document.getElementById("app");
if (root) void begin(root);

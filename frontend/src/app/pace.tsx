/** The pace of a sandbox: pause, twice as fast, half as fast. */

import { useState } from "preact/hooks";
import { ApiError, post } from "../api/client";
import { useGet } from "../api/use";
import { count } from "../format/amounts";

export function Pace() {
  const { data, reload } = useGet("/api/v1/session", {}, ["session"]);
  const [problem, setProblem] = useState("");
  if (!data?.speed) return null;
  const speed = data.speed;
  const set = async (change: { speed?: number; paused?: boolean }): Promise<void> => {
    try {
      await post("/api/v1/pace", { speed: change.speed ?? null, paused: change.paused ?? null });
      setProblem("");
      reload();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <span class="pace" role="group" aria-label="Pace of the sandbox">
      <button type="button" class="plain" aria-label={data.paused ? "Resume" : "Pause"} onClick={() => void set({ paused: !data.paused })}>
        <span aria-hidden="true">{data.paused ? "▶" : "‖"}</span> <span class="more">{data.paused ? "Resume" : "Pause"}</span>
      </button>
      <button type="button" class="plain more" aria-label="Half as fast" onClick={() => void set({ speed: speed / 2 })}>−</button>
      <span class="number more" title="Simulated seconds per real second">×{count(speed)}</span>
      <button type="button" class="plain more" aria-label="Twice as fast" onClick={() => void set({ speed: speed * 2 })}>+</button>
      {problem ? <span class="problem" role="alert">{problem}</span> : null}
    </span>
  );
}

/** Sign-in for a browser without a session: the server exchanges a token for a cookie. */

import { useState } from "preact/hooks";
import { ApiError, signIn } from "../api/client";
import { Empty } from "../ui/basics";

export function SignIn(props: { message: string; onDone: () => void }) {
  const [problem, setProblem] = useState("");
  const enter = async (event: Event & { currentTarget: HTMLFormElement }): Promise<void> => {
    event.preventDefault();
    const field = event.currentTarget.elements.namedItem("token") as HTMLInputElement;
    try {
      await signIn(field.value.trim());
      props.onDone();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
      field.select();
    }
  };
  return (
    <Empty title="This page needs a token">
      <p>
        Open the address that the terminal printed, which ends in <code>#token=…</code>, or give the token here; on a cluster
        a bearer token of its API server, such as <code>kubectl create token NAME</code> prints.
      </p>
      <form class="sign-in" onSubmit={(event) => void enter(event)}>
        <label class="labelled">
          <span>Token</span>
          <input type="password" name="token" autocomplete="off" required />
        </label>
        <button type="submit" class="primary">Open the page</button>
      </form>
      <p class="problem" role="alert">{problem || props.message}</p>
    </Empty>
  );
}

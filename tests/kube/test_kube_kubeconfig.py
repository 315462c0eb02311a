"""Kubeconfig files: how several become one, what a context comes down to, and what is said of one that is wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
from base64 import b64encode
from pathlib import Path

import pytest

from fairway.errors import InputError, NoAnswerError
from fairway.kube.server.connection import REREAD, Certificate, Identity, Plugin, PluginCredentials, TokenFile
from fairway.kube.server.kubeconfig import find_connection


def written(path: Path, **parts: object) -> Path:
    """A kubeconfig with one cluster `c`, one user `u` and one context `x`, as far as they are given."""
    cluster, user, context = parts.get("cluster"), parts.get("user"), parts.get("context")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}] if cluster is not None else None,
        "users": [{"name": "u", "user": user}] if user is not None else None,
        "contexts": [{"name": "x", "context": context}] if context is not None else None,
        "current-context": parts.get("current", ""),
    }
    path.write_text(json.dumps(config))
    return path


def whole(folder: Path, user: object, **cluster: object) -> Path:
    return written(
        folder / "config",
        cluster={"server": "https://10.0.0.1:6443", **cluster},
        user=user,
        context={"cluster": "c", "user": "u", "namespace": "team"},
        current="x",
    )


def identity_of(path: Path) -> Identity:
    return asyncio.run(find_connection(str(path)).credentials.identity())


def test_a_context_comes_down_to_a_server_a_user_and_a_namespace(tmp_path: Path) -> None:
    found = find_connection(str(whole(tmp_path, {"token": "t0p"}, **{"tls-server-name": "kube"})))
    assert (found.server, found.namespace, found.trust.server_name) == ("https://10.0.0.1:6443", "team", "kube")
    assert asyncio.run(found.credentials.identity()).authorization == "Bearer t0p"
    assert "t0p" not in repr(found)


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path) -> None:
    one = written(tmp_path / "one", cluster={"server": "https://one"}, current="x")
    two = written(
        tmp_path / "two",
        cluster={"server": "https://two"},
        user={"token": "second"},
        context={"cluster": "c", "user": "u"},
        current="another",
    )
    found = find_connection(environment={"KUBECONFIG": f"{one}:{tmp_path / 'missing'}:{two}"})
    assert found.server == "https://one"
    assert asyncio.run(found.credentials.identity()).authorization == "Bearer second"


def test_files_beside_a_kubeconfig_are_found_from_its_folder(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name.upper())
    user = {"client-certificate": "cert", "client-key": "key"}
    path = whole(tmp_path, user, **{"certificate-authority": "ca"})
    assert identity_of(path).certificate == Certificate(b"CERT", b"KEY")
    assert find_connection(str(path)).trust.authorities == b"CA"


def test_data_in_a_kubeconfig_wins_over_files(tmp_path: Path) -> None:
    text = b64encode(b"INLINE").decode()
    path = whole(tmp_path, {}, **{"certificate-authority": "nosuch", "certificate-authority-data": text})
    assert find_connection(str(path)).trust.authorities == b"INLINE"


def test_a_user_with_a_password_and_one_without_anything(tmp_path: Path) -> None:
    assert identity_of(whole(tmp_path, {"username": "a", "password": "b"})).authorization == "Basic YTpi"
    assert identity_of(whole(tmp_path, {})).authorization == ""


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"auth-provider": {"name": "oidc"}}, {}, "auth-provider is not supported, expected a plugin under exec"),
        ({"as": "somebody"}, {}, "impersonation (as) is not supported"),
        ({"client-key": "k"}, {}, "client-key: "),
        ({"client-certificate-data": "QQ=="}, {}, "expected both or none"),
        ({}, {"server": "10.0.0.1"}, "server is '10.0.0.1', expected an address such as https://10.0.0.1:6443"),
        ({}, {"proxy-url": "socks5://p"}, "proxy-url is 'socks5://p', expected an http or https address"),
        ({}, {"certificate-authority-data": "!"}, "certificate-authority-data: not base64"),
        ({}, {"certificate-authority-data": "QQ==", "insecure-skip-tls-verify": True}, "expected one of them"),
        ({"exec": {"command": "no-such-program"}}, {}, "there is no program 'no-such-program' on the PATH"),
        ({"exec": {"command": "ls", "apiVersion": "v0"}}, {}, "exec.apiVersion is 'v0', expected client.auth"),
        ({"exec": {"command": "ls", "interactiveMode": "Always"}}, {}, "there is no terminal to answer on"),
        ({"token": 7}, {}, "not a kubeconfig: Expected `str`, got `int`"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_where(
    tmp_path: Path, user: object, cluster: dict[str, object], said: str
) -> None:
    path = whole(tmp_path, user, **cluster)
    with pytest.raises(InputError) as error:
        find_connection(str(path))
    assert said in str(error.value)
    assert str(error.value).startswith(str(path))


def test_names_that_are_not_there_are_said_with_those_that_are(tmp_path: Path) -> None:
    path = whole(tmp_path, {})
    with pytest.raises(InputError, match=r"there is no context 'y', expected one of x"):
        find_connection(str(path), "y")
    written(path, context={"cluster": "d"}, cluster={"server": "https://s"}, current="x")
    with pytest.raises(InputError, match=r"context 'x': there is no cluster 'd', expected one of c"):
        find_connection(str(path))


def test_without_any_configuration_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no cluster is configured: .*use --kubeconfig FILE"):
        find_connection(environment={"HOME": str(tmp_path)})
    with pytest.raises(InputError, match="cannot be read"):
        find_connection(str(tmp_path / "nosuch"))


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, text in {"ca.crt": "CA", "token": "abc\n", "namespace": "fairway-system"}.items():
        (tmp_path / name).write_text(text)
    environment = {"HOME": "/nosuch", "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = find_connection(environment=environment, service_account=tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "fairway-system")
    assert asyncio.run(found.credentials.identity()).authorization == "Bearer abc"
    (tmp_path / "token").unlink()
    with pytest.raises(InputError, match="automountServiceAccountToken"):
        find_connection(environment=environment, service_account=tmp_path)


def test_a_token_file_is_read_again_and_one_that_is_missing_for_a_moment_does_no_harm(tmp_path: Path) -> None:
    path, now = tmp_path / "token", [0.0]
    credentials = TokenFile(path, monotonic=lambda: now[0])
    with pytest.raises(NoAnswerError):
        asyncio.run(credentials.identity())

    def token() -> str:
        return asyncio.run(credentials.identity()).authorization.removeprefix("Bearer ")

    path.write_text("one")
    assert token() == "one"
    path.write_text("two")
    assert token() == "one"
    now[0] += REREAD
    assert token() == "two"
    path.unlink()
    now[0] += REREAD
    assert token() == "two"
    path.write_text("three")
    credentials.refused()
    assert token() == "three"


def plugin(folder: Path, status: object, *, before: str = "") -> Plugin:
    """One that counts its runs in a file and answers what it is told to."""
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{before}\ncat <<'X'\n{json.dumps(answer)}\nX\n")
    program.chmod(0o755)
    return Plugin(str(program), environment={"REGION": "here"})


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def test_a_plugin_runs_once_until_what_it_gave_expires_or_is_refused(tmp_path: Path) -> None:
    now = [0]
    made = plugin(tmp_path, {"token": "T", "expirationTimestamp": "1970-01-01T00:01:00Z"})
    credentials = PluginCredentials(made, clock=lambda: now[0])

    async def story() -> None:
        await asyncio.gather(*(credentials.identity() for _ in range(5)))
        assert (await credentials.identity()).authorization == "Bearer T"
        assert runs(tmp_path) == 1
        now[0] = 60_000_000
        await credentials.identity()
        assert runs(tmp_path) == 2
        now[0] = 0
        credentials.refused()
        await credentials.identity()
        assert runs(tmp_path) == 3

    asyncio.run(story())


def test_a_plugin_runs_once_though_many_requests_are_refused_with_what_it_gave_before(tmp_path: Path) -> None:
    made = plugin(tmp_path, {"token": "T"})
    credentials = PluginCredentials(made)

    async def story() -> None:
        old = Identity("Bearer old")
        credentials._identity = old

        async def request() -> None:
            assert await credentials.identity() == old
            await asyncio.sleep(0)  # the server answers all with 401
            credentials.refused(old)
            assert (await credentials.identity()).authorization == "Bearer T"
            credentials.refused(old)  # one that was late
            assert (await credentials.identity()).authorization == "Bearer T"

        await asyncio.gather(*(request() for _ in range(20)))
        assert runs(tmp_path) == 1

    asyncio.run(story())


def test_what_a_plugin_gave_may_be_refused_in_the_moment_in_which_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = PluginCredentials(plugin(tmp_path, {"token": "T"}))
    run, numbers = credentials._run, itertools.count()

    async def run_and_be_refused() -> None:
        await run()
        if next(numbers) == 0:
            asyncio.get_running_loop().call_soon(credentials.refused)

    monkeypatch.setattr(credentials, "_run", run_and_be_refused)
    assert asyncio.run(credentials.identity()).authorization == "Bearer T"
    assert runs(tmp_path) == 2


def test_a_plugin_is_told_what_it_needs_and_may_give_a_certificate(tmp_path: Path) -> None:
    before = f'echo "$REGION $KUBERNETES_EXEC_INFO" > {tmp_path}/told'
    made = plugin(tmp_path, {"clientCertificateData": "CERT", "clientKeyData": "KEY"}, before=before)
    found = asyncio.run(PluginCredentials(made).identity())
    assert found == Identity("", Certificate(b"CERT", b"KEY"))
    told = (tmp_path / "told").read_text()
    assert told.startswith("here {")
    assert json.loads(told.removeprefix("here "))["spec"] == {"interactive": False}
    assert "KEY" not in repr(found)


@pytest.mark.parametrize(
    ("status", "before", "said"),
    [
        ({}, "", "neither a token nor a client certificate"),
        ({"token": 1}, "", "not an ExecCredential"),
        ({"token": "T"}, "exit 3", "it ended with status 3"),
    ],
)
def test_a_plugin_that_fails_is_an_error_and_is_run_again(
    tmp_path: Path, status: object, before: str, said: str
) -> None:
    credentials = PluginCredentials(plugin(tmp_path, status, before=before))
    for count in (1, 2):
        with pytest.raises(NoAnswerError, match=said):
            asyncio.run(credentials.identity())
        assert runs(tmp_path) == count

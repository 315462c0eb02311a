"""The source of the policy, and its reload: an invalid new policy is reported, and the old one stays in use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from fairway.api.meta import ApiStruct
from fairway.api.policy import Policy, default_policy, parse_policy
from fairway.errors import ApiError, FairwayError, InputError
from fairway.kube.http import ApiClient
from fairway.scheduler.plugins.installed import default_registry

POLICY_KEY = "policy.yaml"
MAX_POLICY = 4 << 20


class PolicyText(Protocol):
    """Where the text of a policy is read from."""

    name: str
    """Its name in messages."""

    async def text(self) -> str:
        """InputError or ApiError if it cannot be read."""


class FileText:
    """A file, or a ConfigMap mounted as one."""

    def __init__(self, path: str) -> None:
        self.name = path

    async def text(self) -> str:
        try:
            with Path(self.name).open("rb") as file:
                raw = file.read(MAX_POLICY + 1)
            if len(raw) > MAX_POLICY:
                raise InputError(f"{self.name}: larger than {MAX_POLICY} bytes, expected a policy")
            return raw.decode("utf-8-sig")
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}: not a text file: {error.reason}") from None


class _ConfigMap(ApiStruct, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMapText:
    """A key of a ConfigMap."""

    def __init__(self, client: ApiClient, named: str) -> None:
        namespace, name, *rest = named.split("/")
        self._client = client
        self._key = rest[0] if rest else POLICY_KEY
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self.name = f"configmap {namespace}/{name}"

    async def text(self) -> str:
        found = await self._client.read(self._path, _ConfigMap)
        if self._key not in found.data:
            keys = ", ".join(sorted(found.data)) or "none"
            raise InputError(f"{self.name}: has no key {self._key} (keys: {keys})")
        return found.data[self._key]


class PolicyReports(Protocol):
    """Notified of policies, on the asyncio thread."""

    def policy_used(self, source: str, warnings: tuple[str, ...]) -> None: ...

    def policy_refused(self, source: str, why: str) -> None:
        """The old policy stays in use. Called once per text."""


class PolicySource:
    """The policy of a run, and its later versions."""

    def __init__(self, text: PolicyText | None, reports: PolicyReports) -> None:
        self._source = text
        self._reports = reports
        self._seen: str | None = None

    async def first(self) -> Policy:
        """InputError if there is no valid policy: a scheduler does not start on a guess."""
        if self._source is None:
            return default_policy(default_registry().catalog)
        self._seen = await self._source.text()
        policy = self._parsed(self._seen)
        self._reports.policy_used(self._source.name, tuple(policy.warnings))
        return policy

    async def watch(self, use: Callable[[Policy], None], interval: float) -> None:
        """Look periodically, and call `use` with each new policy. Never returns while there is a source."""
        while self._source is not None:
            await asyncio.sleep(interval)
            await self.look(use)

    async def look(self, use: Callable[[Policy], None]) -> None:
        assert self._source is not None
        try:
            text = await self._source.text()
        except ApiError as error:
            if error.status == 404:
                self._refuse("", "it was deleted")
            return  # the API server is unreachable: the policy may be unchanged
        except InputError as error:
            self._refuse("", str(error))
            return
        if text == self._seen:
            return
        try:
            policy = self._parsed(text)
        except FairwayError as error:
            self._refuse(text, str(error))
            return
        self._seen = text
        use(policy)
        self._reports.policy_used(self._source.name, tuple(policy.warnings))

    def _refuse(self, text: str, why: str) -> None:
        assert self._source is not None
        if text != self._seen:
            self._seen = text
            self._reports.policy_refused(self._source.name, why)

    def _parsed(self, text: str) -> Policy:
        assert self._source is not None
        return parse_policy(text, self._source.name, default_registry().catalog)

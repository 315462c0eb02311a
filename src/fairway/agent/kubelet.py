"""The agent as a DRA driver: what a kubelet calls, and how it learns that there is a driver.

Two sockets: the driver's own (`<plugins>/<driver>/dra.sock`), and one in the folder that the kubelet watches
(`<registry>/<driver>-reg.sock`) that tells of the first. A claim that cannot be prepared is an answer, not an error of
the call: the kubelet tries again and shows the sentence on the pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc

from fairway.agent.preparing import ClaimName, ClaimPreparer
from fairway.agent.protocol import dra_pb2 as dra
from fairway.agent.protocol import plugin_registration_pb2 as registration
from fairway.agent.protocol.rpc import DRA_PLUGIN, DRIVER_REGISTRATION, Method, serve
from fairway.agent.sockets import UnixServer
from fairway.app.logs import RunLog
from fairway.errors import PrepareError

TYPE = "DRAPlugin"
VERSIONS = ["v1.DRAPlugin"]
MAX_CLAIMS = 1_000
"""Of one call."""


class KubeletDriver:
    """Serves both sockets."""

    def __init__(
        self,
        driver: str,
        plugins: Path,
        registry: Path,
        preparer: ClaimPreparer,
        log: RunLog,
        *,
        registered: Callable[[], None],
        ended: Callable[[str, bool], None],
    ) -> None:
        """`registered` is called each time the kubelet takes the driver; `ended` with each call's name and success."""
        self._driver = driver
        self._preparer = preparer
        self._log = log
        self._registered = registered
        self._ended = ended
        self.is_registered = False
        calls: dict[str, Method] = {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare}
        self._service = UnixServer(plugins / driver / "dra.sock", [serve(DRA_PLUGIN, calls)])
        about: dict[str, Method] = {"GetInfo": self._info, "NotifyRegistrationStatus": self._status}
        self._registration = UnixServer(registry / f"{driver}-reg.sock", [serve(DRIVER_REGISTRATION, about)])

    async def start(self) -> None:
        """The driver's socket first: a kubelet that hears of it may call at once."""
        await self._service.start()
        await self._registration.start()

    async def keep(self) -> None:
        def lost() -> None:
            self._log.warning("a socket for the kubelet was removed, serving it again")

        def unregistered() -> None:
            self.is_registered = False
            lost()

        await asyncio.gather(self._service.keep(lost), self._registration.keep(unregistered))

    async def close(self) -> None:
        await self._registration.close()
        await self._service.close()

    # -- registration ------------------------------------------------------------------------------------------

    async def _info(self, request: Any, context: Any) -> registration.PluginInfo:
        return registration.PluginInfo(
            type=TYPE, name=self._driver, endpoint=str(self._service.path), supported_versions=VERSIONS
        )

    async def _status(
        self, request: registration.RegistrationStatus, context: Any
    ) -> registration.RegistrationStatusResponse:
        self.is_registered = request.plugin_registered
        if request.plugin_registered:
            self._log.info("registered with the kubelet", driver=self._driver)
            self._registered()
        else:
            self._log.error("the kubelet refused the driver", driver=self._driver, why=request.error[:500])
        return registration.RegistrationStatusResponse()

    # -- claims ------------------------------------------------------------------------------------------------

    async def _prepare(
        self, request: dra.NodePrepareResourcesRequest, context: Any
    ) -> dra.NodePrepareResourcesResponse:
        await _check_size(request.claims, context)

        async def one(name: ClaimName) -> dra.NodePrepareResourceResponse:
            devices = await self._preparer.prepare(name)
            return dra.NodePrepareResourceResponse(
                devices=[
                    dra.Device(
                        request_names=[device.request],
                        pool_name=device.pool,
                        device_name=device.device,
                        cdi_device_ids=device.cdi,
                        share_id=device.share_id,
                    )
                    for device in devices
                ]
            )

        answers = await self._each("prepare", request.claims, one, dra.NodePrepareResourceResponse)
        return dra.NodePrepareResourcesResponse(claims=answers)

    async def _unprepare(
        self, request: dra.NodeUnprepareResourcesRequest, context: Any
    ) -> dra.NodeUnprepareResourcesResponse:
        await _check_size(request.claims, context)

        async def one(name: ClaimName) -> dra.NodeUnprepareResourceResponse:
            await self._preparer.unprepare(name)
            return dra.NodeUnprepareResourceResponse()

        answers = await self._each("unprepare", request.claims, one, dra.NodeUnprepareResourceResponse)
        return dra.NodeUnprepareResourcesResponse(claims=answers)

    async def _each(
        self,
        call: str,
        claims: Iterable[dra.Claim],
        carry_out: Callable[[ClaimName], Awaitable[Any]],
        answer: Callable[..., Any],
    ) -> dict[str, Any]:
        """One claim's trouble is not the others'."""

        async def ending(claim: dra.Claim) -> Any:
            try:
                found = await carry_out(ClaimName(claim.namespace, claim.name, claim.uid))
            except PrepareError as error:
                self._log.warning(f"{call} failed", claim=f"{claim.namespace}/{claim.name}"[:600], why=str(error))
                self._ended(call, False)
                return answer(error=str(error))
            except Exception as error:
                self._log.error(f"{call} failed", claim=f"{claim.namespace}/{claim.name}"[:600], why=repr(error))
                self._ended(call, False)
                return answer(error=f"this is an error in Fairway, please report it: {error!r}"[:1000])
            self._ended(call, True)
            return found

        every = list(claims)
        answers = await asyncio.gather(*(ending(claim) for claim in every))
        return {claim.uid: found for claim, found in zip(every, answers, strict=True)}


async def _check_size(claims: Any, context: Any) -> None:
    if len(claims) > MAX_CLAIMS:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{len(claims)} claims, expected at most {MAX_CLAIMS}")

"""Notebook servers as pods, each on its slice of a GPU.

KubeSpawner stays in charge of everything that is not a GPU: profiles, hooks, volumes and admins'
settings work as they do there. Which node and which device a pod gets is the scheduler's word, and
it is written into the pod last, after all of them.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
from jupyterhub.utils import exponential_backoff, maybe_future
from kubernetes_asyncio.client import ApiClient, V1Pod
from kubernetes_asyncio.client.rest import ApiException
from kubespawner import KubeSpawner
from kubespawner.slugs import is_valid_label, safe_slug
from traitlets import Integer, Unicode, default

from gpucommons.gpu.providers import Injection
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER
from gpucommons.scheduler.models import NOTEBOOK_OPTIONS, SliceView
from gpucommons.spawner.form.answers import NotebookOptions, check_size
from gpucommons.spawner.form.cpu_words import cpu_and_memory
from gpucommons.spawner.form.form_mixin import options_form
from gpucommons.spawner.form.profile_checks import check_profile, check_sent
from gpucommons.spawner.form.refusal import bad_options_refused, refusal
from gpucommons.spawner.lease import LeaseMixin
from gpucommons.spawner.pods.pod import Pod, PodNeeds, fitted, notebook_of
from gpucommons.spawner.pods.pod_changes import changed
from gpucommons.spawner.pods.pod_hibernation import grace_seconds, obstacle, saves_within_s
from gpucommons.spawner.pods.pod_objects import create_objects
from gpucommons.spawner.pods.pod_words import api_refusal, event_sentence, stuck
from gpucommons.spawner.pods.slice_injection import NotBound, SliceMakers, slice_injection

_CONFLICT = 409
#: The API server is starting or busy: it may answer the next time.
_TRY_AGAIN = (429, 502, 503, 504)
_LOOK_S = 1.0
_LOOK_FOR_SLOT_S = 0.2
#: Between the end of a pod's time and that of the hub's patience.
_STOP_REST_S = 10


class GpuKubeSpawner(LeaseMixin, KubeSpawner):  # type: ignore[misc] # kubespawner has no types
    """Notebook pods with a slice of a GPU."""

    gpu_priority_class_name = Unicode(
        help="PriorityClass of pods that hold a slice; empty: as `priority_class_name` says."
    ).tag(config=True)
    device_class_name = Unicode(
        "gpu.nvidia.com", help="DeviceClass of the GPUs where a pool's provider is `dra`."
    ).tag(config=True)
    slice_driver_name = Unicode(
        CSI_DRIVER, help="CSIDriver of the node agents, which mounts the slices' folders."
    ).tag(config=True)
    image_patience_s = Integer(
        90, help="So long an image may fail to load before the start ends and frees its GPU."
    ).tag(config=True)

    slot_patience_s = Integer(
        30,
        help="So long the GPU of a fraction may take to be reserved before the start ends; below"
        " `start_timeout`, which ends the start without a sentence.",
    ).tag(config=True)

    hibernation_grace_s = Integer(
        300,
        help="So long a pod that saves its kernels may take to end, at most; the chart's"
        " hibernation.enabled says which nodes let pods do that. Less where `start_timeout` is less."
        " The time follows from `mem_limit`, so that all of it can be written.",
    ).tag(config=True)

    #: Declared by the hub's spawner; named here for the type checker.
    user_options: dict[str, Any]
    #: A pod may exist that this start asked for…
    _pod_asked = False
    #: …and this is it, once the API server took it.
    _pod_uid = ""

    def keeps_files(self) -> bool:
        """Whether a volume of their own is made for the user; what else is mounted is not known."""
        return bool(self.storage_pvc_ensure)

    def own_cpu_text(self) -> str:
        """See :class:`StartOptions`."""
        memory = self.mem_limit or self.mem_guarantee or 0
        return cpu_and_memory(self.cpu_limit or self.cpu_guarantee or 0, memory / 2**30)

    # --- what the user asks -------------------------------------------------------------------

    @default("options_form")
    def _default_options_form(self) -> object:
        return self._whole_form

    async def _whole_form(self, spawner: Any) -> str:
        """The profiles, as KubeSpawner shows them, above the choice of a GPU."""
        form = KubeSpawner._options_form_default(self)
        profiles = await maybe_future(form(spawner)) if callable(form) else form
        return f"{profiles}\n{await options_form(self)}"

    def read_form(self, form_data: Mapping[str, object]) -> dict[str, object]:
        """Read what a form or a link says; a profile as KubeSpawner reads it."""
        if not self.profile_list:
            return super().read_form(form_data)
        ours = {k: v for k, v in form_data.items() if k.removeprefix("opt-") in NOTEBOOK_OPTIONS}
        of_profiles = {k: v for k, v in form_data.items() if k not in ours}
        kept: dict[str, object] = KubeSpawner._options_from_form(self, of_profiles)
        return {**kept, **super().read_form(ours)} if ours else kept

    def notebook_options(self, raw: Mapping[str, object] | None = None) -> NotebookOptions:
        """The options of this start; where there are profiles, the other keys are theirs."""
        given = (self.user_options if raw is None else raw) or {}
        if self.profile_list:
            with bad_options_refused():
                check_size(given)
            given = {k: v for k, v in given.items() if k.removeprefix("opt-") in NOTEBOOK_OPTIONS}
        return super().notebook_options(given)

    async def read_chosen(self) -> None:
        """Read a profile as a form sent it that went through the waiting line; refuse a wrong one."""
        with bad_options_refused():
            given = self.user_options or {}
            if isinstance(given.get("profile"), list):
                self._read_sent(given)
            check_profile(self.user_options or {}, await self._profiles())

    def _read_sent(self, given: Mapping[str, object]) -> None:
        sent = {key: value for key, value in given.items() if isinstance(value, list)}
        check_sent(sent)
        ours = {key: value for key, value in given.items() if key not in sent}
        self.user_options = {**KubeSpawner._options_from_form(self, sent), **ours}
        if self.orm_spawner is not None:
            # What the next form preselects.
            self.orm_spawner.user_options = self.user_options

    async def _profiles(self) -> list[dict[str, Any]]:
        """The profiles on offer to this user, completed."""
        found = self._sorted_dict_values(self.profile_list)
        if callable(found):
            found = await maybe_future(found(self))
        profiles: list[dict[str, Any]] = self._get_initialized_profile_list(found)
        return profiles

    async def load_user_options(self) -> None:
        """Apply the chosen profile and environment to what the admin set, not to the last start."""
        try:
            await super().load_user_options()
        except (ValueError, LookupError, TypeError):
            # Only the hub's starts: who calls this alone gets KubeSpawner's own errors.
            if not self._starting:
                raise
            self.log.warning("A profile cannot be applied for %s", self._log_name, exc_info=True)
            message = (
                "This profile cannot be started with these choices. Choose others, or ask your admin:"
                " the hub's log says why."
            )
            raise refusal(message, reason="bad_options", status=400) from None
        chosen = self.notebook_options().environment
        if chosen:
            self._apply_overrides({"image": self.environments[chosen]})

    def _apply_overrides(self, spawner_override: dict[str, Any]) -> None:
        # KubeSpawner merges into the spawner's own values, and a second start finds them there.
        for name in spawner_override:
            self._before_profile.setdefault(name, copy.deepcopy(getattr(self, name, None)))
        super()._apply_overrides(spawner_override)

    @property
    def _before_profile(self) -> dict[str, Any]:
        found: dict[str, Any] = self.__dict__.setdefault("_values_before_profile", {})
        return found

    def clear_state(self) -> None:
        """Forget the last start: its lease, its pod, its profile."""
        super().clear_state()
        for name, value in self._before_profile.items():
            setattr(self, name, value)
        self._before_profile.clear()

    # --- the slice ----------------------------------------------------------------------------

    async def prepare_slice(self, held: SliceView) -> Injection | None:
        """What the pod gets; the node's agent makes the slice itself when the pod arrives there."""
        makers = SliceMakers(driver=self.slice_driver_name, device_class=self.device_class_name)
        gives_up = time.monotonic() + self.slot_patience_s
        while self._lease is not None:
            try:
                return slice_injection(self._lease, held, makers)
            except NotBound as error:
                # A pod that reserves the whole device is on its way where none did.
                if time.monotonic() > gives_up:
                    raise refusal(str(error), reason="slot_not_bound", status=503) from None
            await asyncio.sleep(_LOOK_FOR_SLOT_S)
            held = await self._look_again(self._lease.id, held)
        return None

    def _saves_within_s(self, pod: Pod) -> int:
        """How long the pod that is to be made may take to save its kernels; 0 = it cannot."""
        if self.held_slice is None or not self.held_slice.can_hibernate:
            return 0
        because = obstacle(pod["spec"], notebook_of(pod))
        if because is not None:
            self.log.warning("Kernels of %s are not saved: %s.", self.pod_name, because)
            return 0
        # A stop of the hub waits so long for the pod's end, and then calls it failed.
        most = min(int(self.hibernation_grace_s), int(self.start_timeout) - _STOP_REST_S)
        return grace_seconds(self.mem_limit, most)

    def _needs(self, pod: Pod) -> PodNeeds:
        return PodNeeds(
            saves_within_s=self._saves_within_s(pod),
            user_label=safe_slug(self.user.name, is_valid=is_valid_label),
            user=self.user.name,
            server_name=self.name,
            env=self.gpu_env({}),
            lease=self._lease,
            injection=self._prepared or Injection(),
            priority_class=self.gpu_priority_class_name,
        )

    # --- the pod ------------------------------------------------------------------------------

    def start(self) -> Any:
        """Start now, as KubeSpawner does: whoever follows the progress need not wait for it."""
        return asyncio.ensure_future(super().start())

    async def _start(self) -> str:
        """Start the pod; give up early where it cannot start, and say why in every case."""
        self._pod_asked, self._pod_uid = False, ""
        starting = asyncio.ensure_future(super()._start())
        watching = asyncio.ensure_future(self._until_given_up())
        try:
            await asyncio.wait({starting, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                raise refusal(watching.result(), reason="pod_cannot_start", status=409)
            url: str = starting.result()
        except ApiException as error:
            raise self._refused(error) from None
        finally:
            for task in (starting, watching):
                task.cancel()
            await asyncio.gather(starting, watching, return_exceptions=True)
        return url

    async def _make_create_pod_request(self, pod: V1Pod, request_timeout: float) -> bool:
        """Create the pod as it must be, whatever profiles and hooks made of it.

        KubeSpawner's own would log a refused pod, with the tokens in it.
        """
        self._pod_asked = True
        client: ApiClient = self.api.api_client
        plain: Pod = client.sanitize_for_serialization(pod)
        body = fitted(plain, self._needs(plain))
        request = self.api.create_namespaced_pod(self.namespace, body)
        try:
            stored = await asyncio.wait_for(request, request_timeout)
        except (TimeoutError, aiohttp.ClientError):
            return False
        except ApiException as error:
            if error.status == _CONFLICT and '"AlreadyExists"' in str(error.body):
                self.log.info("Found an old pod %s, ending it", self.pod_name)
                # Not our own stop, which gives up the slice of *this* start.
                await KubeSpawner.stop(self, now=True)
                return False
            if error.status == _CONFLICT or error.status in _TRY_AGAIN:
                return False
            raise
        found: Pod = client.sanitize_for_serialization(stored)
        self._pod_uid = found["metadata"]["uid"]
        foreign = bool(self.held_slice and self.held_slice.provider)
        if wrong := changed(body, found, foreign=foreign):
            message = (
                "Something in the cluster changed the notebook's pod on its way in"
                f" ({', '.join(wrong)}), so it was not started. Tell your admin."
            )
            raise refusal(message, reason="pod_changed", status=409)
        objects = self._prepared.pod.objects if self._prepared else ()
        await create_objects(self.namespace, objects, owner=found)
        return True

    # JupyterHub's one second is over before a server has stored anything; who ends earlier is gone earlier.
    @default("delete_grace_period")
    def _default_delete_grace_period(self) -> int:
        return 10

    def stop_seconds(self) -> int:
        """See :class:`LeaseMixin`."""
        return int(self.delete_grace_period)

    async def _make_delete_pod_request(
        self, pod_name: str, delete_options: Any, grace_seconds: int, request_timeout: float
    ) -> bool:
        if grace_seconds:
            grace_seconds = max(grace_seconds, saves_within_s(self._pod()))
            delete_options.grace_period_seconds = grace_seconds
        if self._lease is not None:
            # With 0 the pod is forgotten at once, and its processes may still use the GPU.
            grace_seconds = max(1, grace_seconds)
            delete_options.grace_period_seconds = grace_seconds
        deleted: bool = await super()._make_delete_pod_request(
            pod_name, delete_options, grace_seconds, request_timeout
        )
        return deleted

    def _refused(self, error: ApiException) -> Exception:
        why = api_refusal(error.body)
        self.log.error("Kubernetes refused %s: %s", self.pod_name, why.sentence)
        return refusal(why.sentence, reason=why.reason, status=why.status)

    async def _until_given_up(self) -> str:
        """Return only where the pod will not start."""
        since: float | None = None
        while True:
            await asyncio.sleep(_LOOK_S)
            pod = self._pod() or {}
            # An old pod of this name may be there still, and never start.
            ours = bool(self._pod_uid) and pod.get("metadata", {}).get("uid") == self._pod_uid
            found = stuck(pod) if ours else None
            if found is None:
                since = None
                continue
            since = time.monotonic() if since is None else since
            if found.for_good or time.monotonic() - since > self.image_patience_s:
                return found.sentence

    async def _undo_start(self) -> None:
        if self._pod_asked:
            # While the pod may run its slice stays taken: no `finally` here.
            await asyncio.shield(asyncio.ensure_future(KubeSpawner.stop(self, now=True)))
        self._let_go("failed")

    def _pod(self) -> dict[str, Any] | None:
        reflector = self.pod_reflector
        found: dict[str, Any] | None = (
            reflector.pods.get(f"{self.namespace}/{self.pod_name}") if reflector else None
        )
        return found

    def is_up(self) -> bool:
        """Whether the pod has got so far that its processes run."""
        return bool(self.is_pod_running(self._pod()))

    async def get_url(self) -> str:
        """Where the server is; a hub that ended in the middle of a start waits for its pod."""
        pod = self._pod()
        if pod is not None and pod["status"]["phase"] == "Pending":
            await exponential_backoff(
                lambda: self._pod() is None or self.is_up(),
                f"pod {self.pod_name} did not start after the hub did",
                timeout=self.start_timeout,
            )
            pod = self._pod()
        if pod is not None and self.is_up():
            return str(self._get_pod_url(pod))
        return str(await maybe_future(super().get_url()))

    # --- what the user sees -------------------------------------------------------------------

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Say in words what happens to the pod."""
        async for event in super().progress():
            if "raw_event" not in event:
                yield event
                continue
            # Half of the bar was the way to the slice.
            yield {
                **event,
                "progress": 50 + int(event["progress"]) // 2,
                "message": event_sentence(event["raw_event"]),
            }

"""The few messages that a kubelet and a driver of volumes exchange, with their published names and numbers.

Protocol buffers skip what they do not know, so only the fields that are used stand here. The classes
are made when this module is loaded: there is no generated code to keep in step.

Published in: container-storage-interface/spec ``csi.proto`` (v1), kubernetes/kubelet
``pluginregistration/v1``, ``podresources/v1`` and ``deviceplugin/v1beta1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

_Field = descriptor_pb2.FieldDescriptorProto
#: Name, number, type: ``string``, ``bool``, ``map`` (of strings), ``Message``; ``*`` = repeated.
_Fields = tuple[tuple[str, int, str], ...]

_CSI: Mapping[str, _Fields] = {
    "BoolValue": (("value", 1, "bool"),),
    "GetPluginInfoRequest": (),
    "GetPluginInfoResponse": (("name", 1, "string"), ("vendor_version", 2, "string")),
    "GetPluginCapabilitiesRequest": (),
    "GetPluginCapabilitiesResponse": (),
    "ProbeRequest": (),
    "ProbeResponse": (("ready", 1, "BoolValue"),),
    "NodeGetInfoRequest": (),
    "NodeGetInfoResponse": (("node_id", 1, "string"),),
    "NodeGetCapabilitiesRequest": (),
    "NodeGetCapabilitiesResponse": (),
    "NodePublishVolumeRequest": (
        ("volume_id", 1, "string"),
        ("target_path", 4, "string"),
        ("volume_context", 8, "map"),
    ),
    "NodePublishVolumeResponse": (),
    "NodeUnpublishVolumeRequest": (("volume_id", 1, "string"), ("target_path", 2, "string")),
    "NodeUnpublishVolumeResponse": (),
}
_REGISTRATION: Mapping[str, _Fields] = {
    "InfoRequest": (),
    "PluginInfo": (
        ("type", 1, "string"),
        ("name", 2, "string"),
        ("endpoint", 3, "string"),
        ("supported_versions", 4, "*string"),
    ),
    "RegistrationStatus": (("plugin_registered", 1, "bool"), ("error", 2, "string")),
    "RegistrationStatusResponse": (),
}
_POD_RESOURCES: Mapping[str, _Fields] = {
    "ListPodResourcesRequest": (),
    "ListPodResourcesResponse": (("pod_resources", 1, "*PodResources"),),
    "PodResources": (
        ("name", 1, "string"),
        ("namespace", 2, "string"),
        ("containers", 3, "*ContainerResources"),
    ),
    "ContainerResources": (("name", 1, "string"), ("devices", 2, "*ContainerDevices")),
    "ContainerDevices": (("resource_name", 1, "string"), ("device_ids", 2, "*string")),
}
_DEVICE_PLUGIN: Mapping[str, _Fields] = {
    "Empty": (),
    "RegisterRequest": (
        ("version", 1, "string"),
        ("endpoint", 2, "string"),
        ("resource_name", 3, "string"),
    ),
    "DevicePluginOptions": (),
    "Device": (("ID", 1, "string"), ("health", 2, "string")),
    "ListAndWatchResponse": (("devices", 1, "*Device"),),
    "ContainerAllocateRequest": (("devices_ids", 1, "*string"),),
    "AllocateRequest": (("container_requests", 1, "*ContainerAllocateRequest"),),
    "CDIDevice": (("name", 1, "string"),),
    "ContainerAllocateResponse": (("cdi_devices", 5, "*CDIDevice"),),
    "AllocateResponse": (("container_responses", 1, "*ContainerAllocateResponse"),),
}


def _classes(package: str, messages: Mapping[str, _Fields]) -> Mapping[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"gpucommons/{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            _add(package, message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _add(
    package: str, message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str
) -> None:
    repeated = kind.startswith("*") or kind == "map"
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    kind = kind.lstrip("*")
    if kind == "string":
        field.type = _Field.TYPE_STRING
    elif kind == "bool":
        field.type = _Field.TYPE_BOOL
    elif kind == "map":
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{_add_entry(message, name)}"
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"


def _add_entry(message: descriptor_pb2.DescriptorProto, field: str) -> str:
    """The message that a map's entries are on the wire; its name is prescribed."""
    name = "".join(part.capitalize() for part in field.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    for number, part in enumerate(("key", "value"), start=1):
        entry.field.add(
            name=part, number=number, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING
        )
    return name


#: Messages by name, and the services that speak them.
CSI = _classes("csi.v1", _CSI)
REGISTRATION = _classes("pluginregistration", _REGISTRATION)
POD_RESOURCES = _classes("v1", _POD_RESOURCES)
DEVICE_PLUGIN = _classes("v1beta1", _DEVICE_PLUGIN)

IDENTITY_SERVICE = "csi.v1.Identity"
NODE_SERVICE = "csi.v1.Node"
REGISTRATION_SERVICE = "pluginregistration.Registration"
POD_RESOURCES_SERVICE = "v1.PodResourcesLister"
DEVICE_PLUGIN_SERVICE = "v1beta1.DevicePlugin"
DEVICE_REGISTRATION_SERVICE = "v1beta1.Registration"


def strings(message: Message, field: str) -> Iterable[str]:
    """A repeated field of strings."""
    return tuple(map(str, value_of(message, field)))


def value_of(message: Message, field: str) -> Any:
    """A field of a class that was made at run time."""
    return getattr(message, field)

"""PyTensor's containers whose values may be JAX arrays."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportCallIssue=false
# Checks run without PyTensor, too.

from __future__ import annotations

from pytensor.link.basic import Container

from jaxprgen.graphs.containers import DeviceMixin, StateMixin


class StateContainer(StateMixin, Container):
    """A container whose value may be a JAX array."""


class DeviceContainer(DeviceMixin, StateContainer):
    """A container whose value is a NumPy array for who asks for it."""

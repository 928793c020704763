"""Aesara's containers whose values may be JAX arrays."""

from __future__ import annotations

from aesara.link.basic import Container

from jaxprgen.graphs.containers import DeviceMixin, StateMixin


class StateContainer(StateMixin, Container):
    """A container whose value may be a JAX array."""


class DeviceContainer(DeviceMixin, StateContainer):
    """A container whose value is a NumPy array for who asks for it."""

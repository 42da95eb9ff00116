"""What ordinary stores have left in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from sm90_verify.frontends.ptx.values import One, Unknown


@dataclass
class Memory:
    """Bytes that ordinary stores have left, by address; what is not there is not known."""

    bytes: dict[int, int] = field(default_factory=dict)
    watched: bool = False
    stored: set[int] = field(default_factory=set)
    loaded: set[int] = field(default_factory=set)
    """Since it is watched, the addresses that were written and read."""

    def store(self, address: int, size: int, value: One) -> None:
        if isinstance(value, Unknown):
            self.forget(address, size)
            return
        if self.watched:
            self.stored.update(range(address, address + size))
        for number in range(size):
            self.bytes[address + number] = value >> 8 * number & 255

    def forget(self, address: int, size: int) -> None:
        if self.watched:
            self.stored.update(range(address, address + size))
        for place in range(address, address + size):
            self.bytes.pop(place, None)

    def load(self, address: int, size: int) -> int | None:
        if self.watched:
            self.loaded.update(range(address, address + size))
        found = 0
        for number in range(size):
            byte = self.bytes.get(address + number)
            if byte is None:
                return None
            found |= byte << 8 * number
        return found

"""The door to a BMC."""

from inventory.redfish.bmc import Bmc, no_fence
from inventory.redfish.client import BmcLogin
from inventory.redfish.look import look, look_as_json
from inventory.redfish.pins import PinStore
from inventory.redfish.quirks import QUIRKS, Quirk, Trait

Pins = PinStore

__all__ = ["QUIRKS", "Bmc", "BmcLogin", "PinStore", "Pins", "Quirk", "Trait", "look", "look_as_json", "no_fence"]

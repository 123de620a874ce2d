"""The book, NetBox: which nodes there are, what is on record of each, and how a run's findings get there."""

from inventory.netbox.book import BookBay, BookNode, BookPart, BookPort
from inventory.netbox.differ import identity_alarm, plan_record
from inventory.netbox.door import NetBox
from inventory.netbox.plan import RecordPlan

__all__ = ["BookBay", "BookNode", "BookPart", "BookPort", "NetBox", "RecordPlan", "identity_alarm", "plan_record"]

"""A BMC that answers Redfish over HTTPS, every resource derived from one machine's state."""

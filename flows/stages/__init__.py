"""The seven stages: plain functions from a node's report and site to a stage record. No Prefect here."""

"""The nodes: one file each, plain functions on the state. Import a node from its file."""

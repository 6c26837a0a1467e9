"""The pins of micro-batches: the decisions of each batch, written once beside the checkpoint."""

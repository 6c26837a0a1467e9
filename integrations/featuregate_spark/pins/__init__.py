"""The pins of micro-batches: the decisions of each batch, written once into the checkpoint."""

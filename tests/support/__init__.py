"""What tests share: one harness of a core, references of engines, comparisons, processes."""

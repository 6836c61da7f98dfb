"""MemGym's compaction strategies beside the presets, on each track."""

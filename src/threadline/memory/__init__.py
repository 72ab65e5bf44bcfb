"""Working memory, the thinking: nodes, chains, promotion, ranking, rendering, anchors. No disk, no clock, no dice."""

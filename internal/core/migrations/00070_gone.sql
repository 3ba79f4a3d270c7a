-- Rows of what is gone are forgotten, the oldest first.
CREATE INDEX node_gone ON node (phase_at) WHERE phase = 'gone';
CREATE INDEX cluster_deleted ON cluster (phase_at) WHERE phase = 'deleted';

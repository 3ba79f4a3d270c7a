-- Clusters that pause.

-- How long, in ms, jobs may run on when the cluster pauses. 0: they are queued again at once. Below 0: until they end.
ALTER TABLE cluster ADD COLUMN pause_wait BIGINT NOT NULL DEFAULT 0;
-- What a paused cluster holds, in bytes: /home and its head's state.
ALTER TABLE cluster ADD COLUMN held BIGINT NOT NULL DEFAULT 0;

-- Copies of what a cluster held: /home and its head's state, with the file that it was made from.
CREATE TABLE snapshot (
  id         TEXT PRIMARY KEY,
  project    TEXT NOT NULL,
  name       TEXT NOT NULL,
  cluster_id TEXT NOT NULL REFERENCES cluster (id),
  cluster    TEXT NOT NULL,                  -- its name
  spec       TEXT NOT NULL,                  -- resolved, JSON
  desired    TEXT NOT NULL CHECK (desired IN ('present', 'deleted')),
  bytes      BIGINT NOT NULL DEFAULT 0,      -- once saved
  copied     BIGINT NOT NULL DEFAULT 0,      -- while it is being saved
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  {{life}},
  CHECK (phase IN ('saving', 'saved', 'failed', 'deleting', 'deleted'))
);
CREATE UNIQUE INDEX snapshot_name ON snapshot (project, name) WHERE phase <> 'deleted';
CREATE INDEX snapshot_wake ON snapshot (wake_at);

-- The snapshot that a cluster was made from; '' for most.
ALTER TABLE cluster ADD COLUMN snapshot TEXT NOT NULL DEFAULT '';

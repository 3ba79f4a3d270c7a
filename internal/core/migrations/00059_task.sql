-- Tasks: programs that users have run on their clusters from outside.

CREATE TABLE task (
  id         TEXT PRIMARY KEY,
  cluster_id TEXT   NOT NULL REFERENCES cluster (id),
  account    TEXT   NOT NULL,                -- the user whom it runs as, and who asked for it
  work       TEXT   NOT NULL,                -- JSON: what is to run, where, and for how long
  cancel     BIGINT NOT NULL DEFAULT 0 CHECK (cancel IN (0, 1)),
  boot       BIGINT NOT NULL DEFAULT 0,      -- of the head that was told of it first
  said       TEXT   NOT NULL DEFAULT '',     -- JSON: what the head said of it last
  outcome    TEXT   NOT NULL DEFAULT '' CHECK (outcome IN ('', 'ok', 'failed', 'timed-out', 'cancelled', 'lost')),
  kept       BIGINT NOT NULL DEFAULT 0,      -- bytes of its output that came
  created_at BIGINT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'queued', 'running', 'ended')),
  CHECK ((outcome <> '') = (phase = 'ended'))
);
CREATE INDEX task_wake ON task (wake_at);
CREATE INDEX task_of_cluster ON task (cluster_id, created_at);

-- What a task wrote, in pieces; base64, since it may hold any byte.
CREATE TABLE task_output (
  task_id TEXT   NOT NULL REFERENCES task (id),
  start   BIGINT NOT NULL,                   -- bytes before it
  bytes   TEXT   NOT NULL,
  PRIMARY KEY (task_id, start)
);

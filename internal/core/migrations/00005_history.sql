-- Alarms of which a person has said that they know.
CREATE TABLE acknowledgement (
  alarm    TEXT PRIMARY KEY,
  person   TEXT   NOT NULL,
  note     TEXT   NOT NULL,
  at       BIGINT NOT NULL,
  seen_at  BIGINT NOT NULL, -- what came later is not known to the person
  ends_at  BIGINT NOT NULL
);
-- How many there were of everything, minute by minute, for a day.
CREATE TABLE census (
  at     BIGINT PRIMARY KEY, -- a whole minute
  counts TEXT   NOT NULL     -- JSON
);
-- How many jobs of a cluster run, and how many are pending, as its head told. Those of a paused cluster are all pending.
ALTER TABLE cluster_jobs ADD COLUMN running BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cluster_jobs ADD COLUMN pending BIGINT NOT NULL DEFAULT 0;

-- External clusters are asked for their queues by the engine. Their IDs are their names.
ALTER TABLE external_cluster RENAME COLUMN name TO id;
ALTER TABLE external_cluster ADD COLUMN phase TEXT NOT NULL DEFAULT 'pending'
  CHECK (phase IN ('pending', 'ready', 'degraded', 'deleted'));
ALTER TABLE external_cluster ADD COLUMN phase_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE external_cluster ADD COLUMN attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE external_cluster ADD COLUMN wake_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE external_cluster ADD COLUMN wakes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE external_cluster ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE external_cluster ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE external_cluster ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE external_cluster ADD COLUMN generation BIGINT NOT NULL DEFAULT 1; -- counts what operators have said of it
ALTER TABLE external_cluster ADD COLUMN reached BIGINT NOT NULL DEFAULT 0;    -- the generation that was looked at last
UPDATE external_cluster SET
  phase = CASE WHEN lost_at IS NOT NULL THEN 'degraded' WHEN seen_at IS NOT NULL THEN 'ready' ELSE 'pending' END,
  phase_at = COALESCE(lost_at, seen_at, created_at),
  reached = CASE WHEN looked_at IS NULL THEN 0 ELSE 1 END;
ALTER TABLE external_cluster DROP COLUMN asked_at;
ALTER TABLE external_cluster DROP COLUMN looked_at;
ALTER TABLE external_cluster DROP COLUMN lost_at;
CREATE INDEX external_cluster_wake ON external_cluster (wake_at);

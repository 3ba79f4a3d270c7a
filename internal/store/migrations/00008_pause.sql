-- Clusters that pause.

-- How long, in ms, jobs may run on when the cluster pauses. 0: they are queued again at once. Below 0: until they end.
ALTER TABLE cluster ADD COLUMN pause_wait BIGINT NOT NULL DEFAULT 0;
-- What a paused cluster holds, in bytes: /home and its head's state.
ALTER TABLE cluster ADD COLUMN held BIGINT NOT NULL DEFAULT 0;

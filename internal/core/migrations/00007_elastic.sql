-- Queues that grow and shrink: since when a node is without a job, and which jobs wait.

ALTER TABLE observed ADD COLUMN idle_at   BIGINT NOT NULL DEFAULT 0;  -- 0: it has a job, or Slurm does not know it
ALTER TABLE observed ADD COLUMN last_busy TEXT   NOT NULL DEFAULT ''; -- Slurm's word for when its last job ended
ALTER TABLE observed ADD COLUMN waiting   TEXT   NOT NULL DEFAULT ''; -- a head's: the jobs that wait, JSON

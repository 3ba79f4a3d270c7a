-- A boot shows signs of life within a step, too.

ALTER TABLE boot ADD COLUMN step_at BIGINT NOT NULL DEFAULT 0; -- when it came to its step

-- What a cluster's nodes are to boot, and how far they are with it.

ALTER TABLE cluster ADD COLUMN aim         BIGINT NOT NULL DEFAULT 1;  -- the generation that last said what nodes boot
ALTER TABLE cluster ADD COLUMN good        TEXT   NOT NULL DEFAULT ''; -- JSON: what its nodes booted when it was last wholly ready
ALTER TABLE cluster ADD COLUMN stopped     BIGINT NOT NULL DEFAULT 0;  -- the aim whose rollout has stopped by itself
ALTER TABLE cluster ADD COLUMN stopped_why TEXT   NOT NULL DEFAULT '';

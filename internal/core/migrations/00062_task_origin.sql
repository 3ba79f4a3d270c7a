-- Tasks of Muster's own, beside those of users.

ALTER TABLE task ADD COLUMN origin TEXT NOT NULL DEFAULT '' CHECK (origin IN ('', 'pause')); -- what asked for it; '': a user

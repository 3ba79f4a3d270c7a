-- What a project runs around the jobs of its clusters, as their users: scripts; '': none.

ALTER TABLE project ADD COLUMN prolog TEXT NOT NULL DEFAULT '';
ALTER TABLE project ADD COLUMN epilog TEXT NOT NULL DEFAULT '';

-- A person is in a project once they have agreed, or an operator has put them there.

ALTER TABLE member ADD COLUMN invited_by TEXT NOT NULL DEFAULT ''; -- who has offered the role; '': it is taken

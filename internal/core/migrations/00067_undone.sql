-- What a head could not do for users, as its agent says: JSON.

ALTER TABLE observed ADD COLUMN undone TEXT NOT NULL DEFAULT '[]';

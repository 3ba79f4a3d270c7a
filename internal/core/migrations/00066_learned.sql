-- What is known of an elastic queue, whatever nodes it has now: what they give to jobs, and which jobs it grew for in vain.

ALTER TABLE cluster ADD COLUMN learned TEXT NOT NULL DEFAULT '{}';

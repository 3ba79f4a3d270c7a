-- The switch's ports that a machine is on, one for each of its MACs; [] where nobody said.
ALTER TABLE machine ADD COLUMN ports TEXT NOT NULL DEFAULT '[]'; -- JSON

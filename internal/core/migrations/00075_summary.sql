-- What lists show of a machine's facts, and classes select by: facts are tens of kilobytes, and a page has a thousand machines.

ALTER TABLE machine ADD COLUMN summary TEXT NOT NULL DEFAULT '{}'; -- JSON
UPDATE machine SET summary = {{summary}} WHERE facts <> '';

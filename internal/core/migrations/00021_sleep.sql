-- Clusters that pause and keep what their nodes have in memory.
ALTER TABLE cluster ADD COLUMN keeps_memory BIGINT NOT NULL DEFAULT 0 CHECK (keeps_memory IN (0, 1));

-- 1: the node is to sleep instead of leaving its machine, and while it is pending, it does.
ALTER TABLE node ADD COLUMN sleeps BIGINT NOT NULL DEFAULT 0 CHECK (sleeps IN (0, 1));

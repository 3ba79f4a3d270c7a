-- Guests that move to another host while they run: which, and what they are to have of it. What they hold there are rows of
-- held, beside those of the host that they are still on.
ALTER TABLE machine ADD COLUMN to_host_id TEXT REFERENCES machine (id) CHECK (to_host_id IS NULL OR host_id IS NOT NULL AND to_host_id <> host_id);
ALTER TABLE machine ADD COLUMN to_holding TEXT NOT NULL DEFAULT '';                      -- JSON
CREATE INDEX machine_to_host ON machine (to_host_id);

-- A hypervisor that is to leave service: 1, its guests are to go; 0, they may stay until their nodes go.
ALTER TABLE machine ADD COLUMN drains BIGINT NOT NULL DEFAULT 0 CHECK (drains IN (0, 1));

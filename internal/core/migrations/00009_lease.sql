-- Leases: when a cluster starts and ends.

ALTER TABLE cluster ADD COLUMN starts_at BIGINT NOT NULL DEFAULT 0;                                        -- when its nodes are to be there
ALTER TABLE cluster ADD COLUMN ends_at   BIGINT NOT NULL DEFAULT 0 CHECK (ends_at = 0 OR ends_at > starts_at); -- 0: without end
ALTER TABLE cluster ADD COLUMN lead      BIGINT NOT NULL DEFAULT 0;                                        -- ms that its machines need to come, and to go
ALTER TABLE cluster ADD COLUMN warned    BIGINT NOT NULL DEFAULT 0;                                        -- ms before the end of the last warning given; 0: none

-- One row: whoever decides about machines locks it, so that no two promise the same time.
CREATE TABLE desk (one BIGINT PRIMARY KEY CHECK (one = 1), visits BIGINT NOT NULL);
INSERT INTO desk (one, visits) VALUES (1, 0);

-- Since when a machine is told to be off and was not yet seen so; 0: nobody waits for that.
ALTER TABLE machine ADD COLUMN off_since BIGINT NOT NULL DEFAULT 0;

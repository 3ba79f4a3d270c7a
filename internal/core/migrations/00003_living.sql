-- Clusters that live: how many nodes each queue has now, and what each node boots.

-- How many nodes lifecycle wants of each elastic queue now, between its min and max. JSON: queue → number.
ALTER TABLE cluster ADD COLUMN targets TEXT NOT NULL DEFAULT '{}';

ALTER TABLE node ADD COLUMN image TEXT   NOT NULL DEFAULT ''; -- digest that its boot uses; '' before its first boot
ALTER TABLE node ADD COLUMN disk  BIGINT NOT NULL DEFAULT 0;  -- 1: that boot's root is on the machine's disk
ALTER TABLE node ADD COLUMN renew BIGINT NOT NULL DEFAULT 0;  -- 1: it drains, then boots anew on its machine

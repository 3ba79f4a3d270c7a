-- Whose an adapter is, as inspections and imports have found: a fabric asks for those of its ports, and reads no machines for it.

CREATE TABLE adapter (
  guid       TEXT PRIMARY KEY,               -- of its node, spelled as fabric_port.adapter is
  machine_id TEXT NOT NULL REFERENCES machine (id)
);
CREATE INDEX adapter_machine ON adapter (machine_id);

INSERT INTO adapter (guid, machine_id)
  SELECT '0x' || digits, MAX(machine_id)
  FROM (SELECT machine_id, LOWER(REPLACE(REPLACE(guid, '0x', ''), ':', '')) AS digits FROM {{devices}} d WHERE kind = 'hca') h
  WHERE LENGTH(digits) = 16 AND digits NOT IN ('0000000000000000', 'ffffffffffffffff')
  GROUP BY digits;

-- A name is looked for in all projects at once.
CREATE INDEX snapshot_by_name ON snapshot (name) WHERE phase <> 'deleted';

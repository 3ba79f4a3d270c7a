INSERT INTO adapter (guid, machine_id) VALUES ('0x0002c90300000020', 'm3');
